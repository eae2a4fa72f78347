// Plans as text and as programs: round trip, damage, and a small training plan on rank threads.
#include "runtime/plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "ir/base/diag.h"
#include "ir/base/lexer.h"
#include "ir/base/text.h"
#include "runtime/executor.h"

namespace tessera {
namespace {

// y = w x + 1 with the contraction cut over x, w and y as state.
Plan linear_plan() {
  Plan plan;
  plan.grid = Grid::parse("data=2,x=2", "test");
  plan.arena_bytes = 1024;
  plan.notes["key"] = "a \"note\"";
  plan.comms = {{1}};
  plan.constants["c0"] = Tensor::of<float>(DType::F32, {2}, std::vector<float>{0.5f, -2.0f});
  PlanFunc func;
  func.name = "forward";
  const auto add = [&](const std::string& name, const std::string& type, std::int64_t offset) {
    Lexer lexer(type, "test");
    func.values.push_back({name, parse_type(lexer, plan.grid), offset});
    return static_cast<int>(func.values.size()) - 1;
  };
  const int a = add("a", "f32[4{data}, 6{x}]", 0);
  const int w = add("w", "f32[6{x}, 2]", 64);
  func.args = {{a, ArgRole::Input}, {w, ArgRole::State}};
  const int p = add("p", "f32[4{data}, 2] partial(sum: x)", 128);
  const int r = add("r", "f32[4{data}, 2]", 192);
  const int c = add("c", "f32[2]", 256);
  const int y = add("y", "f32[4{data}, 2]", 320);
  const int t = add("t", "f32[4{data}, 2]", kNoBuffer);
  PlanStep product{
      OpKind::Einsum, {{"spec", std::string("mk,kn->mn")}}, {a, w}, {p}, {}, -1, "", {}, "node"};
  PlanStep reduce{OpKind::AllReduce, {{"over", AxesAttr{{1}}}}, {p}, {r}, {}, 0, "", {}, ""};
  PlanStep constant{OpKind::Constant, {{"data", std::string("c0")}}, {}, {c}, {}, -1, "", {}, ""};
  PlanStep spread{OpKind::Broadcast, {{"dims", Ints{1}}}, {c}, {t}, {}, -1, "", {}, ""};
  PlanStep sum{OpKind::Add, {}, {r, t}, {y}, {}, -1, "", {}, ""};
  PlanStep fused{OpKind::Add, {}, {r, c}, {y}, {spread, sum}, -1, "", {}, ""};
  func.steps = {product, reduce, constant, fused};
  func.results = {{y, "y", false}};
  plan.funcs.push_back(func);
  return plan;
}

TEST(Plan, TextParsesBackToTheSameText) {
  const std::string text = to_text(linear_plan());
  EXPECT_EQ(to_text(parse_plan(text, "plan.txt")), text);
}

// A text with a right hash need not be a right plan.
TEST(Plan, CollectivesTakeOneValueAndKeepItsSizes) {
  constexpr std::size_t kReduce = 1;
  Plan none = linear_plan(), two = linear_plan(), resized = linear_plan();
  none.funcs[0].steps[kReduce].operands = {};
  two.funcs[0].steps[kReduce].operands.push_back(0);
  PlanFunc& func = resized.funcs[0];
  func.values[static_cast<std::size_t>(func.steps[kReduce].results[0])].type.shape = {2, 2};
  for (const Plan& plan : {none, two, resized})
    EXPECT_THROW(parse_plan(to_text(plan), "plan.txt"), CompileError);
}

TEST(Plan, EveryDamagedByteIsNoticed) {
  const std::string text = to_text(linear_plan());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_THROW(parse_plan(damaged, "plan.txt"), CompileError) << "byte " << i;
  }
  for (std::size_t length : {std::size_t{0}, std::size_t{5}, text.size() / 2, text.size() - 1}) {
    EXPECT_THROW(parse_plan(text.substr(0, length), "plan.txt"), CompileError);
  }
}

TEST(Plan, AnotherVersionIsRefusedByNumber) {
  std::string text = to_text(linear_plan());
  text.replace(text.find(" 1\n"), 3, " 9\n");
  try {
    parse_plan(text, "plan.txt");
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("format 9"), std::string::npos) << error.what();
  }
}

TEST(Plan, BuffersOutsideOfTheArenaAreRefused) {
  Plan plan = linear_plan();
  plan.arena_bytes = 330;
  EXPECT_THROW(parse_plan(to_text(plan), "plan.txt"), CompileError);
}

Tensor numbers(Shape shape, float start) {
  Tensor tensor(DType::F32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.size(); ++i)
    tensor.mutable_view<float>()[static_cast<std::size_t>(i)] = start + static_cast<float>(i);
  return tensor;
}

TEST(Executor, RunsALinearLayerOnFourRanks) {
  const Plan plan = parse_plan(to_text(linear_plan()), "plan.txt");
  AbortFlag abort;
  const auto hub = make_local_hub(4, Timeout(20), abort);
  const Tensor a = numbers({4, 6}, 1), w = numbers({6, 2}, -3);
  Tensor y;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      const auto world = make_local_world(hub, rank);
      Executor executor(plan, *world);
      executor.set_input("forward", "a", a);
      executor.store_arg("w", w);
      executor.run("forward");
      const Tensor collected = executor.collect_output("forward", "y");
      if (rank == 0) y = collected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(y.shape(), (Shape{4, 2}));
  for (std::int64_t m = 0; m < 4; ++m) {
    for (std::int64_t n = 0; n < 2; ++n) {
      float expected = n == 0 ? 0.5f : -2.0f;
      for (std::int64_t k = 0; k < 6; ++k)
        expected += a.view<float>()[static_cast<std::size_t>(m * 6 + k)] *
                    w.view<float>()[static_cast<std::size_t>(k * 2 + n)];
      EXPECT_EQ(y.view<float>()[static_cast<std::size_t>(m * 2 + n)], expected);
    }
  }
}

TEST(Executor, PlansThatDifferBetweenRanksAreRefusedAtStart) {
  const Plan plan = parse_plan(to_text(linear_plan()), "plan.txt");
  Plan other = linear_plan();
  other.funcs[0].steps[0].attrs = {{"spec", std::string("mk,kn->mn")}, {"acc", DType::F32}};
  const Plan changed = parse_plan(to_text(other), "plan.txt");
  AbortFlag abort;
  const auto hub = make_local_hub(4, Timeout(20), abort);
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      const auto world = make_local_world(hub, rank);
      try {
        Executor executor(rank == 2 ? changed : plan, *world);
      } catch (const WorldError&) {
        ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 4);
}

}  // namespace
}  // namespace tessera
