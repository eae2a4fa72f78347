// Case E1 (meta-pytorch/torchrec#4149): two communicators used in another order on some ranks, and
// twenty other ways in which ranks can disagree. All are found without running anything.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/check_plan.h"

namespace tessera {
namespace {

using Ranks = std::vector<std::vector<IssuedCollective>>;

// Grid 2 x 2: ranks 0,1 and 2,3 share x, ranks 0,2 and 1,3 share d.
std::vector<int> over_x(int rank) { return rank < 2 ? std::vector{0, 1} : std::vector{2, 3}; }
std::vector<int> over_d(int rank) { return rank % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3}; }

constexpr const char* kGather = "all_gather.start %w over x dim 0 of f32[8{x}]";
constexpr const char* kReduce = "all_reduce.start %g over d of f32[8] partial(sum: d)";

// Three rounds of a gather over x and a reduction over d.
Ranks sound() {
  Ranks ranks(4);
  for (int rank = 0; rank < 4; ++rank) {
    for (int i = 0; i < 3; ++i) {
      ranks[static_cast<std::size_t>(rank)].push_back({2 * i, kGather, over_x(rank), 0});
      ranks[static_cast<std::size_t>(rank)].push_back({2 * i + 1, kReduce, over_d(rank), 1});
    }
  }
  return ranks;
}

TEST(CheckOrder, AcceptsOneOrder) { EXPECT_TRUE(check_order(sound()).empty()); }

// E1: ranks 0, 1 gather first, ranks 2, 3 reduce first.
TEST(CheckOrder, NamesTheTwoThatWaitForEachOther) {
  Ranks ranks = sound();
  for (const std::size_t rank : {2u, 3u}) std::swap(ranks[rank][0], ranks[rank][1]);
  const auto found = check_order(ranks);
  ASSERT_FALSE(found.empty());
  const std::string all = found[0] + found.back();
  EXPECT_NE(all.find(kGather), std::string::npos) << all;
  EXPECT_NE(all.find(kReduce), std::string::npos) << all;
}

TEST(CheckOrder, FindsCirclesOfMoreThanTwo) {
  const auto c = [](int step, const char* what, std::vector<int> members, int communicator) {
    return IssuedCollective{step, what, std::move(members), communicator};
  };
  const Ranks ring{{c(0, "a", {0, 1}, 0), c(2, "c", {0, 2}, 2)},
                   {c(1, "b", {1, 2}, 1), c(0, "a", {0, 1}, 0)},
                   {c(2, "c", {0, 2}, 2), c(1, "b", {1, 2}, 1)}};
  const auto found = check_order(ring);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].find("circular wait"), std::string::npos) << found[0];
}

TEST(CheckOrder, FindsEveryDisagreementOfOneRank) {
  using Change = std::function<void(std::vector<IssuedCollective>&)>;
  std::vector<std::pair<std::string, Change>> changes;
  for (const std::size_t at : {0u, 1u, 2u, 3u, 4u, 5u}) {
    changes.emplace_back("omits one (a branch not taken)", [at](auto& issued) {
      issued.erase(issued.begin() + static_cast<std::ptrdiff_t>(at));
    });
    changes.emplace_back("issues one twice", [at](auto& issued) {
      issued.insert(issued.begin() + static_cast<std::ptrdiff_t>(at), issued[at]);
    });
  }
  const auto becomes = [&](const char* name, std::size_t at, const char* what) {
    changes.emplace_back(name, [=](auto& issued) { issued[at].what = what; });
  };
  becomes("another op", 0, "reduce_scatter.start %w over x dim 0 of f32[8{x}]");
  becomes("another dtype", 0, "all_gather.start %w over x dim 0 of bf16[8{x}]");
  becomes("another count", 2, "all_gather.start %w over x dim 0 of f32[9{x}]");
  becomes("another dimension", 2, "all_gather.start %w over x dim 1 of f32[8{x}]");
  becomes("another reduce operator", 3, "all_reduce.start %g over d of f32[8] partial(max: d)");
  becomes("another value", 5, "all_reduce.start %h over d of f32[8] partial(sum: d)");
  changes.emplace_back("another group", [](auto& issued) { issued[1].members = {0, 3}; });
  changes.emplace_back("another communicator", [](auto& issued) { issued[1].communicator = 0; });
  changes.emplace_back("swapped", [](auto& issued) { std::swap(issued[2], issued[3]); });
  for (const auto& [name, change] : changes) {
    Ranks ranks = sound();
    change(ranks[0]);
    EXPECT_FALSE(check_order(ranks).empty()) << name;
  }
  EXPECT_GE(changes.size(), 20u);
}

}  // namespace
}  // namespace tessera
