// Every collective on rank threads, with sizes that do not divide and empty pieces, against the
// whole tensor.
#include "runtime/collectives.h"

#include <gtest/gtest.h>

#include <thread>

#include "ir/base/lexer.h"
#include "ir/base/random.h"
#include "runtime/cpu/permute.h"

namespace tessera {
namespace {

Type type_of(const std::string& text, const Grid& grid) {
  Lexer lexer(text, "test");
  return parse_type(lexer, grid);
}

// Integers, so that sums are exact. For a partial type the pieces of different ranks are addends.
std::vector<float> local_piece(const Type& type, const Grid& grid, int rank, bool addend) {
  const Coordinates at = grid.coordinates(rank);
  const Shape shape = local_shape(type, grid, at), start = local_offsets(type, grid, at);
  const auto strides = row_major_strides(type.shape);
  std::vector<float> piece(static_cast<std::size_t>(elements(shape)));
  const int salt = addend ? grid.group_index(rank, type.partial.axes) : 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), index = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index += (rest % shape[d] + start[d]) * strides[d];
      rest /= shape[d];
    }
    piece[i] = static_cast<float>(
        random_bits(1, static_cast<std::uint64_t>(salt), static_cast<std::uint64_t>(index)) % 100);
  }
  return piece;
}

// What a rank must hold of the value after its partial axes `reduced` were added up.
std::vector<float> expected_piece(const Type& from, const Type& to, const Grid& grid, int rank) {
  const Axes reduced = without(from.partial.axes, to.partial.axes);
  Type whole = to;
  whole.partial = from.partial;
  std::vector<float> sum(
      static_cast<std::size_t>(elements(local_shape(to, grid, grid.coordinates(rank)))), 0.0f);
  for (int member : reduced.empty() ? std::vector<int>{rank} : grid.group(rank, reduced)) {
    Coordinates at = grid.coordinates(rank);
    for (AxisId axis : reduced)
      at[static_cast<std::size_t>(axis)] = grid.coordinates(member)[static_cast<std::size_t>(axis)];
    // The member's addend at this rank's place: cuts of `to` by reduced axes are this rank's.
    const int salt = grid.group_index(grid.rank(at), from.partial.axes);
    const Coordinates own = grid.coordinates(rank);
    const Shape shape = local_shape(to, grid, own), start = local_offsets(to, grid, own);
    const auto strides = row_major_strides(to.shape);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      std::int64_t rest = static_cast<std::int64_t>(i), index = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        index += (rest % shape[d] + start[d]) * strides[d];
        rest /= shape[d];
      }
      sum[i] += static_cast<float>(
          random_bits(1, static_cast<std::uint64_t>(salt), static_cast<std::uint64_t>(index)) %
          100);
    }
  }
  return sum;
}

struct Case {
  const char* grid;
  OpKind kind;
  const char *from, *to;
  const char* over;
  std::int64_t dim, source;
};

class Collectives : public testing::TestWithParam<Case> {};

TEST_P(Collectives, GivesEveryRankItsPiece) {
  const Case& c = GetParam();
  const Grid grid = Grid::parse(c.grid, "test");
  const Type from = type_of(c.from, grid), to = type_of(c.to, grid);
  Lexer lexer(c.over, "test");
  const Axes over = parse_axes(lexer, grid);
  AttrList attrs{{"over", AxesAttr{over}}};
  if (c.kind == OpKind::AllToAll) {
    attrs.set("from", c.source);
    attrs.set("to", c.dim);
  } else if (c.dim >= 0) {
    attrs.set("dim", c.dim);
  }
  AbortFlag abort;
  const auto hub = make_local_hub(grid.ranks(), Timeout(20), abort);
  std::vector<std::vector<float>> results(static_cast<std::size_t>(grid.ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto world = make_local_world(hub, rank);
      std::vector<float> operand = local_piece(from, grid, rank, true);
      std::vector<float>& result = results[static_cast<std::size_t>(rank)];
      result.resize(
          static_cast<std::size_t>(elements(local_shape(to, grid, grid.coordinates(rank)))));
      const CollectiveCall call{c.kind,
                                &attrs,
                                &from,
                                &to,
                                &grid,
                                rank,
                                reinterpret_cast<const std::byte*>(operand.data()),
                                reinterpret_cast<std::byte*>(result.data()),
                                "test"};
      const auto group = world->group(grid.group(rank, over), 1);
      run_collective(call, *group);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    EXPECT_EQ(results[static_cast<std::size_t>(rank)], expected_piece(from, to, grid, rank))
        << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Collectives,
    testing::Values(
        Case{"x=4", OpKind::AllReduce, "f32[5, 7] partial(sum: x)", "f32[5, 7]", "x", -1, -1},
        Case{"x=3", OpKind::AllReduce, "f32[1] partial(sum: x)", "f32[1]", "x", -1, -1},
        Case{"y=2,x=3", OpKind::AllReduce, "f32[4, 5] partial(sum: y,x)", "f32[4, 5]", "y,x", -1,
             -1},
        Case{"y=2,x=3", OpKind::AllReduce, "f32[4{y}, 5] partial(sum: x)", "f32[4{y}, 5]", "x", -1,
             -1},
        Case{"x=4", OpKind::AllGather, "f32[6{x}, 3]", "f32[6, 3]", "x", 0, -1},
        Case{"x=4", OpKind::AllGather, "f32[3, 6{x}]", "f32[3, 6]", "x", 1, -1},
        Case{"y=2,x=2", OpKind::AllGather, "f32[3, 5{y,x}]", "f32[3, 5{y}]", "x", 1, -1},
        Case{"y=2,x=2", OpKind::AllGather, "f32[3, 5{y,x}]", "f32[3, 5]", "y,x", 1, -1},
        Case{"x=3", OpKind::ReduceScatter, "f32[4, 2] partial(sum: x)", "f32[4{x}, 2]", "x", 0, -1},
        Case{"x=4", OpKind::ReduceScatter, "f32[2, 3] partial(sum: x)", "f32[2, 3{x}]", "x", 1, -1},
        Case{"y=2,x=2", OpKind::ReduceScatter, "f32[7{y}, 3] partial(sum: x)", "f32[7{y,x}, 3]",
             "x", 0, -1},
        Case{"y=2,x=2", OpKind::ReduceScatter, "f32[7, 3] partial(sum: y,x)",
             "f32[7{x}, 3] partial(sum: y)", "x", 0, -1},
        Case{"x=3", OpKind::AllToAll, "f32[5{x}, 7]", "f32[5, 7{x}]", "x", 1, 0},
        Case{"x=4", OpKind::AllToAll, "f32[3, 2{x}, 5]", "f32[3{x}, 2, 5]", "x", 0, 1},
        Case{"y=2,x=2", OpKind::AllToAll, "f32[5{y,x}, 3]", "f32[5{y}, 3{x}]", "x", 1, 0}));

TEST(LocalWorld, NamesTheRankThatDoesNotCome) {
  AbortFlag abort;
  const auto hub = make_local_hub(3, Timeout(0.3), abort);
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      const auto world = make_local_world(hub, rank);
      try {
        world->barrier("here");
      } catch (const WorldError& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE((errors[0] + errors[2]).find("rank 1"), std::string::npos) << errors[0];
}

TEST(LocalWorld, AnAbortWakesEveryWait) {
  AbortFlag abort;
  const auto hub = make_local_hub(2, Timeout(60), abort);
  std::thread waiter([&] {
    const auto world = make_local_world(hub, 0);
    EXPECT_THROW(world->barrier("here"), Aborted);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  abort.set("gone", 3);
  waiter.join();
}

// A rank that fails right after an exchange frees its memory while others may still read or wait;
// what they read must stay theirs (the sanitizers look).
TEST(LocalWorld, AFailingRankPullsNoMemoryAway) {
  constexpr int kRanks = 4;
  constexpr std::size_t kBytes = 1 << 20;
  for (int round = 0; round < 40; ++round) {
    AbortFlag abort;
    const auto hub = make_local_hub(kRanks, Timeout(60), abort);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto world = make_local_world(hub, rank);
        try {
          const std::vector<std::byte> own(kBytes, static_cast<std::byte>(rank));
          std::vector<std::byte> from(kRanks * kBytes);
          std::vector<ConstBytes> send(kRanks, {own.data(), kBytes});
          std::vector<Bytes> receive;
          for (std::size_t r = 0; r < kRanks; ++r)
            receive.push_back({from.data() + r * kBytes, kBytes});
          for (int step = 0; step < 3; ++step) {
            if (rank == round % kRanks && step == 2) throw std::runtime_error("failed");
            world->everyone().exchange(send, receive, str("step ", step));
            EXPECT_EQ(from[kRanks * kBytes - 1], static_cast<std::byte>(kRanks - 1));
          }
        } catch (const Aborted&) {
        } catch (const std::runtime_error& error) {
          abort.set(error.what(), 3);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(abort.is_set());
  }
}

TEST(LocalWorld, RanksAtDifferentStepsAreAnError) {
  AbortFlag abort;
  const auto hub = make_local_hub(2, Timeout(5), abort);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const auto world = make_local_world(hub, rank);
      try {
        world->barrier(rank == 0 ? "all_reduce %a" : "all_reduce %b");
      } catch (const WorldError& error) {
        ++failures;
        abort.set(error.what(), 3);
      } catch (const Aborted&) {
        ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 2);
}

}  // namespace
}  // namespace tessera
