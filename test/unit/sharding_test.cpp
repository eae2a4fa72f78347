// Cuts of dimensions: blocks of ceil(n/p), nested, and types as text.
#include "ir/base/sharding.h"

#include <gtest/gtest.h>

#include "ir/base/lexer.h"
#include "ir/base/type.h"

namespace tessera {
namespace {

const Grid kGrid({{"data", 2}, {"z", 2}, {"y", 3}, {"x", 4}});

std::vector<std::int64_t> sizes(std::int64_t n, int parts) {
  std::vector<std::int64_t> result;
  for (int i = 0; i < parts; ++i) result.push_back(cut({0, n}, parts, i).size);
  return result;
}

TEST(Sharding, BlocksAreCeilOfTheSizeAndTheLastAreShorterOrEmpty) {
  EXPECT_EQ(sizes(130, 4), (std::vector<std::int64_t>{33, 33, 33, 31}));
  EXPECT_EQ(sizes(6, 4), (std::vector<std::int64_t>{2, 2, 2, 0}));
  EXPECT_EQ(sizes(1, 3), (std::vector<std::int64_t>{1, 0, 0}));
  EXPECT_EQ(sizes(0, 2), (std::vector<std::int64_t>{0, 0}));
}

TEST(Sharding, SeveralAxesCutOneAfterTheOther) {
  const Axes axes{0, 1};  // data, z
  for (std::int64_t n : {5, 6, 7, 1, 0, 64}) {
    std::int64_t next = 0;
    for (int d = 0; d < 2; ++d) {
      const Extent outer = cut({0, n}, 2, d);
      EXPECT_EQ(local_extent(n, {0}, kGrid, {d, 0, 0, 0}), outer);
      for (int z = 0; z < 2; ++z) {
        const Extent part = local_extent(n, axes, kGrid, {d, z, 0, 0});
        if (part.size > 0) {
          EXPECT_EQ(part.start, next);
        }
        next += part.size;
      }
      EXPECT_EQ(next, outer.start +
                          outer.size);  // gathering over the minor axis gives the type without it
    }
    EXPECT_EQ(largest_local_size(n, axes, kGrid), local_extent(n, axes, kGrid, {0, 0, 0, 0}).size);
  }
}

TEST(Grid, RanksAreRowMajorAndGroupsOrdered) {
  EXPECT_EQ(kGrid.ranks(), 48);
  for (int rank = 0; rank < kGrid.ranks(); ++rank)
    EXPECT_EQ(kGrid.rank(kGrid.coordinates(rank)), rank);
  EXPECT_EQ(kGrid.group(0, {3}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(kGrid.group(5, {1}), (std::vector<int>{5, 17}));
  EXPECT_EQ(kGrid.group(0, {2, 1}), (std::vector<int>{0, 12, 4, 16, 8, 20}));
  EXPECT_EQ(kGrid.group_index(16, {2, 1}), 3);
}

TEST(Type, TextParsesBack) {
  for (const char* text : {"f32[64{data,z}, 512{y}] partial(sum: x)", "i64[]", "bool[0, 3{x}]",
                           "f64[7] partial(max: data,z)"}) {
    Lexer lexer(text, "test");
    EXPECT_EQ(to_text(parse_type(lexer, kGrid), kGrid), text);
    EXPECT_TRUE(lexer.at_end());
  }
}

TEST(Type, LocalShapesFollowCoordinates) {
  Lexer lexer("f32[5{data,z}, 7{y}]", "test");
  const Type type = parse_type(lexer, kGrid);
  EXPECT_EQ(local_shape(type, kGrid, {1, 0, 2, 0}), (Shape{1, 1}));
  EXPECT_EQ(local_offsets(type, kGrid, {1, 0, 2, 0}), (Shape{3, 6}));
  EXPECT_EQ(largest_local_shape(type, kGrid), (Shape{2, 3}));
}

}  // namespace
}  // namespace tessera
