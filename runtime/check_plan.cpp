#include "runtime/check_plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr std::size_t kMostFindings = 20;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool issues_collective(const PlanStep& step) { return !step.fused() && communicates(step.kind); }

// Which steps have ended for certain when a step begins: of each stream, all up to one.
class HappensBefore {
 public:
  explicit HappensBefore(const PlanFunc& func) {
    std::map<std::string, int> streams{{"", 0}};
    for (const PlanStep& step : func.steps)
      streams.try_emplace(step.stream, static_cast<int>(streams.size()));
    std::vector<int> last(streams.size(), -1);
    for (std::size_t i = 0; i < func.steps.size(); ++i) {
      const PlanStep& step = func.steps[i];
      const int stream = streams.at(step.stream);
      std::vector<int> seen(streams.size(), -1);
      if (last[at(stream)] >= 0) join(seen, last[at(stream)]);
      for (const int before : step.after) {
        if (before >= 0 && before < static_cast<int>(i)) join(seen, before);
      }
      stream_.push_back(stream);
      seen_.push_back(std::move(seen));
      last[at(stream)] = static_cast<int>(i);
    }
    last_ = std::move(last);
  }

  bool ordered(int before, int after) const {
    return seen_[at(after)][at(stream_[at(before)])] >= before;
  }
  int stream(int step) const { return stream_[at(step)]; }

  // A step that nothing waits for: the last of a stream that the last compute step has not seen.
  std::optional<int> not_awaited() const {
    for (std::size_t s = 1; s < last_.size(); ++s) {
      const bool seen = last_[0] >= 0 && seen_[at(last_[0])][s] >= last_[s];
      if (!seen) return last_[s];
    }
    return std::nullopt;
  }

 private:
  void join(std::vector<int>& seen, int before) const {
    const std::vector<int>& more = seen_[at(before)];
    for (std::size_t s = 0; s < seen.size(); ++s) seen[s] = std::max(seen[s], more[s]);
    int& own = seen[at(stream_[at(before)])];
    own = std::max(own, before);
  }

  std::vector<int> stream_;             // by step
  std::vector<std::vector<int>> seen_;  // by step and stream
  std::vector<int> last_;               // by stream
};

// What is known of a range of the arena's bytes.
struct Bytes {
  std::int64_t end = 0;
  int value = -1;              // what lies there; -1: unknown
  int writer = -1;             // the step that wrote it; -1: before the function
  std::map<int, int> readers;  // by stream, the last one since then
};

class FuncChecker {
 public:
  FuncChecker(const Plan& plan, const PlanFunc& func, std::vector<std::string>& found)
      : plan_(plan), func_(func), order_(func), found_(found), root_(func.values.size()) {
    for (std::size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<int>(v);
    arena_[0] = {plan.arena_bytes, -1, -1, {}};
  }

  void run() {
    for (const PlanArg& arg : func_.args) {
      for (Bytes* bytes : range(arg.value)) bytes->value = arg.value;
    }
    for (std::size_t i = 0; i < func_.steps.size(); ++i) check_step(static_cast<int>(i));
    if (const auto step = order_.not_awaited())
      report(*step, "C2: nothing waits for it before the function ends");
    for (const PlanResult& result : func_.results) check_result(result);
  }

 private:
  std::string text(int step) const {
    const std::string line = to_line(func_, func_.steps[at(step)], plan_.grid);
    constexpr std::size_t kLongest = 120;
    return str("@", func_.name, " step ", step, " ", in_quotes(line.substr(0, kLongest)));
  }
  void report(int step, const std::string& message) {
    if (found_.size() < kMostFindings) found_.push_back(str(text(step), ": ", message));
  }
  const PlanValue& value(int v) const { return func_.values[at(v)]; }

  // The pieces of a value's bytes, cut out of the map; none for values without bytes.
  std::vector<Bytes*> range(int v) {
    if (value(v).offset == kNoBuffer) return {};
    const std::int64_t start = value(v).offset;
    const std::int64_t end = start + largest_local_bytes(value(v).type, plan_.grid);
    if (start == end) return {};
    cut(start);
    cut(end);
    std::vector<Bytes*> pieces;
    for (auto it = arena_.find(start); it != arena_.end() && it->first < end; ++it)
      pieces.push_back(&it->second);
    return pieces;
  }
  void cut(std::int64_t offset) {
    auto it = std::prev(arena_.upper_bound(offset));
    if (it->first == offset || offset >= it->second.end) return;
    Bytes tail = it->second;
    it->second.end = offset;
    arena_[offset] = std::move(tail);
  }

  void check_step(int i) {
    const PlanStep& step = func_.steps[at(i)];
    for (const int before : step.after) {
      if (before < 0 || before >= i)
        return report(i, str("C2: waits for step ", before, ", which comes later"));
    }
    check_collective(i);
    const bool shares = shares_bytes(func_, step);
    if (step.kind == OpKind::Wait && !step.fused() && !shares)
      report(i, "C4: a wait gives the bytes that it waited for");
    for (const int v : step.operands) read(i, v);
    if (shares) {
      root_[at(step.results[0])] = root_[at(step.operands[0])];
      return;
    }
    check_overlap(i);
    for (const int v : step.results) write(i, v);
  }

  void check_collective(int i) {
    const PlanStep& step = func_.steps[at(i)];
    if (!issues_collective(step)) {
      if (step.comm >= 0) report(i, "C1: has a communicator and does not communicate");
      return;
    }
    const bool exists = step.comm >= 0 && at(step.comm) < plan_.comms.size();
    if (!exists || plan_.comms[at(step.comm)] != step.attrs.axes("over"))
      return report(i, "C1: its communicator is over other axes");
  }

  void read(int i, int v) {
    for (Bytes* bytes : range(v)) {
      if (bytes->value != root_[at(v)]) {
        report(i, str("C4: reads %", value(v).name, ", but its bytes hold ",
                      bytes->value < 0 ? "nothing yet" : str("%", value(bytes->value).name),
                      bytes->writer < 0 ? "" : str(", written by step ", bytes->writer)));
        return;
      }
      if (bytes->writer >= 0 && !order_.ordered(bytes->writer, i))
        return report(i, str("C3: reads %", value(v).name, " while step ", bytes->writer,
                             " may still write it"));
      int& reader = bytes->readers.try_emplace(order_.stream(i), i).first->second;
      reader = i;
    }
  }

  void write(int i, int v) {
    for (Bytes* bytes : range(v)) {
      if (bytes->writer >= 0 && !order_.ordered(bytes->writer, i)) {
        return report(i, str("C3: writes %", value(v).name, " while step ", bytes->writer,
                             " may still write the same bytes"));
      }
      for (const auto& [stream, reader] : bytes->readers) {
        if (reader != i && !order_.ordered(reader, i))
          return report(i, str("C3: writes %", value(v).name, " while step ", reader,
                               " may still read the same bytes"));
      }
      bytes->value = root_[at(v)];
      bytes->writer = i;
      bytes->readers.clear();
    }
  }

  // Only kernels that go element by element may write over what they read.
  void check_overlap(int i) {
    const PlanStep& step = func_.steps[at(i)];
    const OpFamily kind = family(step.kind);
    const bool in_place =
        step.fused() || kind == OpFamily::Elementwise || kind == OpFamily::Optimizer;
    for (const int result : step.results) {
      for (const int operand : step.operands) {
        const std::int64_t a = value(operand).offset, b = value(result).offset;
        const std::int64_t size_a = largest_local_bytes(value(operand).type, plan_.grid);
        const std::int64_t size_b = largest_local_bytes(value(result).type, plan_.grid);
        const bool meet = a < b + size_b && b < a + size_a && size_a > 0 && size_b > 0;
        if (meet && !(in_place && a == b && size_a == size_b))
          report(i, str("C4: writes %", value(result).name, " over its operand %",
                        value(operand).name));
      }
    }
  }

  void check_result(const PlanResult& result) {
    const std::string where = str("@", func_.name, " result %", value(result.value).name);
    for (Bytes* bytes : range(result.value)) {
      if (bytes->value == root_[at(result.value)]) continue;
      found_.push_back(str(where, ": C4: was written over"));
      return;
    }
    if (!result.updates) return;
    const auto arg = std::ranges::find_if(func_.args, [&](const PlanArg& candidate) {
      return value(candidate.value).name == result.name;
    });
    if (arg == func_.args.end() || value(arg->value).offset != value(result.value).offset)
      found_.push_back(str(where, ": C4: does not lie where %", result.name, " does"));
  }

  const Plan& plan_;
  const PlanFunc& func_;
  const HappensBefore order_;
  std::vector<std::string>& found_;
  std::vector<int> root_;  // by value: the one whose bytes it shares
  std::map<std::int64_t, Bytes> arena_;
};

void check_streams(const Plan& plan, std::vector<std::string>& found) {
  std::map<int, std::string> stream_of;
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanStep& step : func.steps) {
      const bool collective = issues_collective(step);
      if (!collective && !step.stream.empty())
        found.push_back(str("@", func.name, ": C1: only collectives have streams: ",
                            to_line(func, step, plan.grid)));
      if (!collective) continue;
      const auto [known, fresh] = stream_of.try_emplace(step.comm, step.stream);
      if (fresh || known->second == step.stream) continue;
      found.push_back(str("@", func.name, ": C1: communicator ", step.comm, " is used on streams ",
                          in_quotes(known->second), " and ", in_quotes(step.stream), ": ",
                          to_line(func, step, plan.grid)));
      return;
    }
  }
}

}  // namespace

std::vector<std::string> check_plan(const Plan& plan) {
  std::vector<std::string> found;
  check_streams(plan, found);
  for (const PlanFunc& func : plan.funcs) FuncChecker(plan, func, found).run();
  return found;
}

void check_plan_or_throw(const Plan& plan) {
  const std::vector<std::string> found = check_plan(plan);
  TESSERA_CHECK(found.empty(), "the plan is not sound: ", found.empty() ? "" : found[0]);
}

}  // namespace tessera
