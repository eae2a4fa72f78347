// Faults planted in the schedules of real plans: an edge taken away, a buffer reused too early,
// collectives swapped on one rank. Those that change something are all found without running the
// plan. What changes something is decided here, by code that shares nothing with the check.
#include <algorithm>
#include <bitset>

#include "passes/pass.h"
#include "runtime/check_plan.h"
#include "test/support/compile.h"

namespace tessera::test {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Plan overlapped_plan(const std::string& name, const Settings& settings) {
  const ModelCase model(name);
  const Scratch scratch;
  CompileFlags flags = model.training("data=2,z=2,y=2,x=2", scratch / "plan");
  static_cast<Settings&>(flags.options) = settings;
  flags.options.overlap = all_overlap();
  compile_model(flags);
  return read_plan(flags.output);
}

// All that is reachable, step by step.
class Reachable {
 public:
  static constexpr std::size_t kMost = 2048;
  explicit Reachable(const PlanFunc& func) : before_(func.steps.size()) {
    std::map<std::string, int> last;
    for (std::size_t i = 0; i < func.steps.size(); ++i) {
      const auto add = [&](int other) {
        before_[i] |= before_[at(other)];
        before_[i].set(at(other));
      };
      const auto found = last.find(func.steps[i].stream);
      if (found != last.end()) add(found->second);
      for (const int other : func.steps[i].after) add(other);
      last[func.steps[i].stream] = static_cast<int>(i);
    }
  }
  bool ordered(std::size_t a, std::size_t b) const { return before_[b][a] || before_[a][b]; }

 private:
  std::vector<std::bitset<kMost>> before_;
};

bool overlap_in_bytes(const Plan& plan, const PlanFunc& func, int a, int b) {
  const PlanValue &x = func.values[at(a)], &y = func.values[at(b)];
  if (x.offset == kNoBuffer || y.offset == kNoBuffer) return false;
  return x.offset < y.offset + largest_local_bytes(y.type, plan.grid) &&
         y.offset < x.offset + largest_local_bytes(x.type, plan.grid);
}

// Whether two steps that nothing orders touch the same bytes, one of them writing. Waits touch
// nothing.
bool has_race(const Plan& plan, const PlanFunc& func) {
  const Reachable reachable(func);
  for (std::size_t b = 0; b < func.steps.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      const PlanStep &first = func.steps[a], &second = func.steps[b];
      if (first.kind == OpKind::Wait || second.kind == OpKind::Wait || reachable.ordered(a, b))
        continue;
      const auto meet = [&](const std::vector<int>& xs, const std::vector<int>& ys) {
        for (const int x : xs) {
          for (const int y : ys) {
            if (overlap_in_bytes(plan, func, x, y)) return true;
          }
        }
        return false;
      };
      if (meet(first.results, second.operands) || meet(first.operands, second.results) ||
          meet(first.results, second.results))
        return true;
    }
  }
  return false;
}

struct Count {
  int planted = 0, found = 0, unchanged = 0;
};

class PlanFaults : public testing::Test {
 protected:
  void tried(Count& count, const Plan& mutant, const std::string& what) {
    ++count.planted;
    if (!check_plan(mutant).empty()) {
      ++count.found;
    } else {
      ADD_FAILURE() << "not found: " << what;
    }
  }
  void print(const char* kind, const Count& count) {
    std::printf("%s: %d planted, %d found, %d changed nothing\n", kind, count.planted, count.found,
                count.unchanged);
  }
  const Plan plan_ =
      overlapped_plan("gpt2_tiny", {1, Recompute::Selective, true, true, true, false});
};

TEST_F(PlanFaults, EdgesTakenAwayAreFound) {
  Count waits, begins;
  ASSERT_TRUE(check_plan(plan_).empty());
  ASSERT_EQ(to_text(parse_plan(to_text(plan_), "plan.txt")), to_text(plan_));
  for (std::size_t f = 0; f < plan_.funcs.size(); ++f) {
    ASSERT_LT(plan_.funcs[f].steps.size(), Reachable::kMost);
    for (std::size_t i = 0; i < plan_.funcs[f].steps.size(); ++i) {
      const PlanStep& step = plan_.funcs[f].steps[i];
      if (step.after.empty()) continue;
      Plan mutant = plan_;
      PlanFunc& func = mutant.funcs[f];
      func.steps[i].after.clear();
      Count& count = step.kind == OpKind::Wait ? waits : begins;
      // What is never waited for may still run when the function has ended.
      bool awaited = true;
      if (step.kind == OpKind::Wait) {
        const Reachable reachable(func);
        std::size_t last = func.steps.size() - 1;
        while (!func.steps[last].stream.empty()) --last;
        awaited = at(step.after[0]) < last && reachable.ordered(at(step.after[0]), last);
      }
      if (awaited && !has_race(mutant, func)) {
        ++count.unchanged;
        continue;
      }
      tried(count, mutant, to_line(func, func.steps[i], plan_.grid));
    }
  }
  print("waits taken away", waits);
  print("begins moved ahead of what they need", begins);
  EXPECT_GE(waits.planted, 60);
  EXPECT_GE(begins.planted, 60);
}

// A buffer laid over another one that is written while the first still has a reader to come.
TEST_F(PlanFaults, BuffersReusedTooEarlyAreFound) {
  Count count;
  for (std::size_t f = 0; f < plan_.funcs.size(); ++f) {
    const PlanFunc& func = plan_.funcs[f];
    std::map<std::int64_t, std::pair<int, int>> lives;  // by offset: of one value
    std::vector<int> made(func.values.size(), -1), read(func.values.size(), -1);
    for (std::size_t i = 0; i < func.steps.size(); ++i) {
      for (const int v : func.steps[i].operands) read[at(v)] = static_cast<int>(i);
      for (const int v : func.steps[i].results) made[at(v)] = static_cast<int>(i);
    }
    const auto has_bytes = [&](std::size_t v) {
      return func.values[v].offset != kNoBuffer &&
             largest_local_bytes(func.values[v].type, plan_.grid) > 0;
    };
    int taken = 0;
    for (std::size_t v = 0; v < func.values.size(); ++v) {
      for (std::size_t w = 0; w < func.values.size(); ++w) {
        const bool meet =
            has_bytes(v) && has_bytes(w) && made[v] >= 0 && made[w] > made[v] && made[w] < read[v];
        const bool shares = meet && (func.steps[at(made[w])].kind == OpKind::Wait ||
                                     func.steps[at(made[w])].kind == OpKind::Reshape);
        if (!meet || shares || ++taken % 23 != 0) continue;
        Plan mutant = plan_;
        mutant.funcs[f].values[w].offset = func.values[v].offset;
        tried(count, mutant, str("%", func.values[w].name, " over %", func.values[v].name));
      }
    }
  }
  print("buffers reused too early", count);
  EXPECT_GE(count.planted, 200);
}

// In the schedules of the ranks, two neighbouring collectives swapped on one of them.
TEST_F(PlanFaults, SwappedCollectivesAreFound) {
  std::vector<std::vector<IssuedCollective>> sound;
  for (int rank = 0; rank < plan_.grid.ranks(); ++rank) sound.push_back(issued_by(plan_, rank));
  ASSERT_EQ(check_order(sound), std::vector<std::string>{});
  Count count;
  for (std::size_t i = 0; i + 1 < sound[0].size(); ++i) {
    for (const std::size_t rank : {std::size_t{0}, i % sound.size()}) {
      auto mutant = sound;
      std::swap(mutant[rank][i], mutant[rank][i + 1]);
      ++count.planted;
      if (check_order(mutant).empty()) {
        ADD_FAILURE() << "not found: " << sound[rank][i].what;
      } else {
        ++count.found;
      }
    }
  }
  print("collectives swapped on one rank", count);
  EXPECT_GE(count.planted, 150);
}

}  // namespace
}  // namespace tessera::test
