// Case E2 (NVIDIA/nccl#592): collectives of three communicators in flight at once, under random
// delays: no hang, and the same bits as one after the other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "ir/base/lexer.h"
#include "ir/base/text.h"
#include "runtime/check_plan.h"
#include "runtime/executor.h"

namespace tessera {
namespace {

// 16 ranks: z gathers of a state, d reduce_scatters and y all_reduces of what is computed from it,
// `rounds` times; each result is a state.
Plan busy_plan(bool overlaps, int rounds) {
  Plan plan;
  plan.grid = Grid::parse("d=2,z=4,y=2", "test");
  plan.comms = {{1}, {0}, {2}};
  PlanFunc func;
  func.name = "micro";
  std::int64_t end = 0;
  const auto add = [&](const std::string& name, const std::string& type) {
    Lexer lexer(type, "test");
    func.values.push_back({name, parse_type(lexer, plan.grid), end});
    end += 256;
    return static_cast<int>(func.values.size()) - 1;
  };
  int last_compute = -1;
  const auto push = [&](PlanStep step) {
    const bool collective = communicates(step.kind);
    if (overlaps && collective) {
      step.attrs.set(kStarted, true);
      step.stream = plan.grid.text(step.attrs.axes("over"));
      if (last_compute >= 0) step.after = {last_compute};
    }
    if (!collective) last_compute = static_cast<int>(func.steps.size());
    func.steps.push_back(std::move(step));
    return static_cast<int>(func.steps.size()) - 1;
  };
  const auto wait = [&](int begun, const std::string& name) {
    const int from = func.steps[static_cast<std::size_t>(begun)].results[0];
    if (!overlaps) return from;
    func.values.push_back({name, func.values[static_cast<std::size_t>(from)].type,
                           func.values[static_cast<std::size_t>(from)].offset});
    const int v = static_cast<int>(func.values.size()) - 1;
    push({OpKind::Wait, {}, {from}, {v}, {}, -1, "", {begun}, ""});
    return v;
  };
  // Changes how dimension 0 is cut.
  const auto cut = [&](OpKind kind, AxisId axis, int comm, int from, int to) {
    const AttrList attrs{{"over", AxesAttr{{axis}}}, {"dim", std::int64_t{0}}};
    return push({kind, attrs, {from}, {to}, {}, comm, "", {}, ""});
  };
  int w = add("w", "f32[32{z}]");
  func.args = {{w, ArgRole::State}};
  const int w0 = w;
  for (int r = 0; r < rounds; ++r) {
    const auto name = [&](const char* base) { return str(base, r); };
    const int g = add(name("g"), "f32[32]"), h = add(name("h"), "f32[32]");
    const int gather = cut(OpKind::AllGather, 1, 0, w, g);
    const int whole = wait(gather, name("gw"));
    push({OpKind::Cos, {}, {whole}, {h}, {}, -1, "", {}, ""});
    const int p = add(name("p"), "f32[32] partial(sum: d)");
    const int q = add(name("q"), "f32[32] partial(sum: y)");
    push({OpKind::KeepOnFirst, {{"over", AxesAttr{{0}}}}, {h}, {p}, {}, -1, "", {}, ""});
    push({OpKind::KeepOnFirst, {{"over", AxesAttr{{2}}}}, {h}, {q}, {}, -1, "", {}, ""});
    const int s = add(name("s"), "f32[32{d}]"), a = add(name("a"), "f32[32]");
    const int scatter = cut(OpKind::ReduceScatter, 0, 1, p, s);
    const int reduce =
        push({OpKind::AllReduce, {{"over", AxesAttr{{2}}}}, {q}, {a}, {}, 2, "", {}, ""});
    const int sw = wait(scatter, name("sw")), aw = wait(reduce, name("aw"));
    const int t = add(name("t"), "f32[32]"), u = add(name("u"), "f32[32]");
    const int back = cut(OpKind::AllGather, 0, 1, sw, t);
    const int tw = wait(back, name("tw"));
    push({OpKind::Add, {}, {aw, tw}, {u}, {}, -1, "", {}, ""});
    w = add(name("w"), "f32[32{z}]");
    cut(OpKind::SliceToShard, 1, -1, u, w);
  }
  func.values[static_cast<std::size_t>(w)].offset =
      func.values[static_cast<std::size_t>(w0)].offset;
  func.results = {{w, "w", true}};
  plan.arena_bytes = end;
  plan.funcs.push_back(func);
  return plan;
}

std::vector<float> run_busy(const Plan& plan, int runs, std::optional<std::uint64_t> seed) {
  AbortFlag abort;
  const auto hub = make_local_hub(plan.grid.ranks(), Timeout(60), abort);
  std::vector<float> result;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < plan.grid.ranks(); ++rank) {
    ranks.emplace_back([&, rank] {
      const auto world = make_local_world(hub, rank);
      ExecutorOptions options;
      options.delay_seed = seed;
      Executor executor(plan, *world, options);
      for (int i = 0; i < runs; ++i) executor.run("micro");
      const Tensor w = executor.collect_arg("w");
      if (rank == 0) result.assign(w.view<float>().begin(), w.view<float>().end());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return result;
}

int seeds() {
  const char* text = std::getenv("TESSERA_SEEDS");
  return text == nullptr ? 5 : std::atoi(text);
}

TEST(OverlappedStreams, GiveTheSameBitsUnderRandomDelays) {
  constexpr int kRounds = 10, kRuns = 4;
  const Plan blocking = busy_plan(false, kRounds), overlapped = busy_plan(true, kRounds);
  ASSERT_EQ(check_plan(blocking), std::vector<std::string>{});
  ASSERT_EQ(check_plan(overlapped), std::vector<std::string>{});
  const std::vector<float> expected = run_busy(blocking, kRuns, {});
  ASSERT_EQ(expected.size(), 32u);
  EXPECT_NE(expected[0], 0.0f);
  for (int seed = 0; seed < seeds(); ++seed)
    ASSERT_EQ(run_busy(overlapped, kRuns, static_cast<std::uint64_t>(seed)), expected) << seed;
}

TEST(OverlappedStreams, TenThousandCollectivesDoNotHang) {
  constexpr int kRounds = 10, kRuns = 250;  // of four collectives
  EXPECT_EQ(run_busy(busy_plan(true, kRounds), kRuns, 1),
            run_busy(busy_plan(false, kRounds), kRuns, {}));
}

// A wait that is left out: the static check sees it before anything runs.
TEST(OverlappedStreams, AMissingEdgeIsFoundByTheCheck) {
  for (const std::size_t kind : {0u, 1u}) {
    const Plan sound = busy_plan(true, 2);
    std::size_t tried = 0;
    for (std::size_t i = 0; i < sound.funcs[0].steps.size(); ++i) {
      Plan plan = sound;
      PlanStep& step = plan.funcs[0].steps[i];
      const bool is_wait = step.kind == OpKind::Wait;
      if (step.after.empty() || is_wait != (kind == 0)) continue;
      const bool follows_its_stream = step.stream == "d" && step.kind == OpKind::AllGather;
      if (follows_its_stream) continue;  // reads what its own stream made: the edge adds nothing
      step.after.clear();
      ++tried;
      EXPECT_FALSE(check_plan(plan).empty()) << to_line(plan.funcs[0], step, plan.grid);
    }
    EXPECT_GE(tried, kind == 0 ? 8u : 5u);
  }
}

}  // namespace
}  // namespace tessera
