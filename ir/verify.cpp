#include "ir/verify.h"

#include <algorithm>
#include <future>
#include <set>
#include <span>
#include <unordered_set>

#include "ir/base/text.h"
#include "ir/op_def.h"

namespace tessera {
namespace {

class Verifier {
 public:
  explicit Verifier(const Module& module) : module_(module) {}

  std::vector<Diagnostic> run() {
    for (const auto& func : module_.funcs()) check_func(*func);
    check_states();
    return std::move(found_);
  }

 private:
  void report(const std::string& where, const std::string& message) {
    found_.push_back({where, message, {}});
  }
  void report(const Op& op, const std::string& message) {
    const std::string where = op.location.empty() ? str("@", op.func->name()) : op.location;
    found_.push_back({where, message, {str("in ", to_line(op))}});
  }

  std::string to_line(const Op& op) const {
    return str("%", op.results.empty() ? "" : op.results[0]->name, " = ", mnemonic(op.kind),
               join(op.operands, ",", [](const Value* v) { return str(" %", v->name); }));
  }

  void check_type(const std::string& where, const Value& value) {
    const Type& type = value.type;
    if (type.cuts.size() != type.rank() || !sizes_are_sane(type.shape)) {
      report(where, str("V3: %", value.name, " has a malformed type"));
      return;
    }
    Axes used = type.used_axes();
    std::ranges::sort(used);
    if (std::ranges::adjacent_find(used) != used.end()) {
      report(where, str("V2: an axis occurs twice in the type of %", value.name, ": ",
                        to_text(type, module_.grid)));
    }
    for (AxisId axis : used) {
      if (axis < 0 || axis >= module_.grid.axis_count())
        report(where, str("V13: %", value.name, " uses an axis that the grid lacks"));
    }
    if (!std::ranges::is_sorted(type.partial.axes)) {
      report(where, str("V2: partial axes of %", value.name, " are not in grid order"));
    }
    const bool typed_argument =
        module_.level == Level::Assigned && value.def == nullptr;  // arguments come first
    if (module_.level < Level::Sharded && type.is_sharded() && !typed_argument) {
      report(where, str("V4: %", value.name, " has a sharding at level ", name(module_.level)));
    }
  }

  void check_func(const Func& func) {
    const std::string place = str("@", func.name());
    std::unordered_set<const Value*> defined;
    for (const Arg& arg : func.args()) {
      defined.insert(arg.value.get());
      check_type(str("@", func.name()), *arg.value);
      if (arg.kind == ArgKind::Param && !module_.weights.contains(arg.value->name)) {
        report(str("@", func.name()), str("V13: parameter %", arg.value->name, " has no weight"));
      }
    }
    std::vector<const Op*> ops;
    for (const auto& op : func.ops()) {
      ops.push_back(op.get());
      for (const Value* operand : op->operands) {
        if (!defined.contains(operand))
          report(*op, str("V1: %", operand->name, " is not defined before this use"));
      }
      for (const auto& result : op->results) defined.insert(result.get());
    }
    check_ops(ops, place);
    check_results(func, defined);
  }

  // Each op by itself; of long functions half of them on another thread.
  void check_ops(std::span<const Op* const> ops, const std::string& place) {
    constexpr std::size_t kLong = 2000;
    if (ops.size() > kLong) {
      const auto half = ops.subspan(ops.size() / 2);
      std::future<std::vector<Diagnostic>> later = std::async(std::launch::async, [&] {
        Verifier other(module_);
        for (const Op* op : half) other.check_op(*op, place);
        return std::move(other.found_);
      });
      for (const Op* op : ops.first(ops.size() / 2)) check_op(*op, place);
      for (Diagnostic& found : later.get()) found_.push_back(std::move(found));
      return;
    }
    for (const Op* op : ops) check_op(*op, place);
  }

  void check_op(const Op& op, const std::string& place) {
    for (const auto& result : op.results)
      check_type(op.location.empty() ? place : op.location, *result);
    try {
      check_logical(op);
      check_level(op);
      if (module_.level >= Level::Sharded) check_sharding(op);
    } catch (const CompileError& error) {
      report(op, str("V3: ", error.diagnostic().message));
    }
  }

  void check_logical(const Op& op) {
    const OpDef& def = op_def(op.kind);
    if (family(op.kind) == OpFamily::Collective) {
      if (op.operands.size() != 1 || op.results.size() != 1)
        return report(op, "V3: a collective has one operand");
      if (op.operands[0]->type.shape != op.results[0]->type.shape ||
          op.operands[0]->type.dtype != op.results[0]->type.dtype) {
        report(op, "V3: a collective changes neither sizes nor dtype");
      }
      return;
    }
    if (op.kind == OpKind::Constant) return check_constant(op);
    const IndexMap map = index_map(op);
    if (map.results.size() != op.results.size()) {
      return report(
          op, str("V3: has ", op.results.size(), " results, index map gives ", map.results.size()));
    }
    if (def.explicit_type) {
      loop_sizes(op, map);
      const bool keeps_dtype = family(op.kind) == OpFamily::Movement;
      if (keeps_dtype && op.results[0]->type.dtype != op.operands[0]->type.dtype)
        report(op, "V3: movement keeps the dtype");
      if (def.check != nullptr) {
        if (const std::string problem = def.check(op); !problem.empty())
          report(op, str("V3: ", problem));
      }
      return;
    }
    const std::vector<Type> inferred = infer_types(op);
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      const Type& actual = op.results[i]->type;
      if (actual.dtype == inferred[i].dtype && actual.shape == inferred[i].shape) continue;
      report(op, str("V3: %", op.results[i]->name, " is ", to_text(actual.logical(), module_.grid),
                     ", must be ", to_text(inferred[i], module_.grid)));
    }
  }

  void check_constant(const Op& op) {
    const auto found = module_.constants.find(op.attrs.text("data"));
    if (found == module_.constants.end())
      return report(op, str("V13: no constant ", in_quotes(op.attrs.text("data"))));
    if (found->second.dtype() != op.results[0]->type.dtype ||
        found->second.shape() != op.results[0]->type.shape) {
      report(op, str("V3: constant ", in_quotes(op.attrs.text("data")), " has another type"));
    }
  }

  void check_level(const Op& op) {
    const bool collective = family(op.kind) == OpFamily::Collective;
    if (collective && module_.level < Level::Sharded)
      report(op, "V4: collectives occur only in sharded modules");
    if (op.kind == OpKind::Reshard && module_.level == Level::Scheduled)
      report(op, "V4: a reshard was not lowered");
    check_in_flight(op);
    if (!op.loops) return;
    if (module_.level != Level::Assigned)
      return report(op, "V4: loop assignments occur only at level assigned");
    const IndexMap map = index_map(op);
    const std::string known = map.loops();
    Axes used;
    for (const auto& [loop, axes] : *op.loops) {
      if (known.find(loop) == std::string::npos)
        report(op, str("V4: no loop '", loop, "' in ", map.text()));
      if (map.is_whole(loop) && !axes.empty())
        report(op, str("V7: loop '", loop, "' must be whole"));
      if (intersects(used, axes))
        report(op, str("V6: {", module_.grid.text(axes), "} cuts two loops"));
      used = concatenated(std::move(used), axes);
    }
  }

  // A collective that was begun is ended by one wait, which nothing else is for.
  void check_in_flight(const Op& op) {
    const bool started = op.attrs.flag(kStarted);
    if (!started && op.kind != OpKind::Wait) return;
    if (module_.level < Level::Scheduled)
      return report(op, "V14: collectives are begun only in scheduled modules");
    if (started) {
      const Value& result = *op.result();
      if (result.users.size() != 1 || result.users[0]->kind != OpKind::Wait ||
          op.func->is_result(&result))
        report(op, "V14: what is in flight has one use, its wait");
    } else if (op.operands[0]->def == nullptr || !op.operands[0]->def->attrs.flag(kStarted)) {
      report(op, "V14: waits for something that is not in flight");
    }
  }

  void check_sharding(const Op& op) {
    const Derived derived = derive_types(op, module_.grid);
    for (const std::string& problem : derived.problems) report(op, problem);
    if (!derived.problems.empty()) return;
    const std::string_view rule = family(op.kind) == OpFamily::Collective ? "V10" : "V8";
    for (std::size_t i = 0; i < derived.results.size(); ++i) {
      if (op.results[i]->type == derived.results[i]) continue;
      report(op, str(rule, ": %", op.results[i]->name, " is ",
                     to_text(op.results[i]->type, module_.grid), ", operands give ",
                     to_text(derived.results[i], module_.grid)));
    }
  }

  void check_results(const Func& func, const std::unordered_set<const Value*>& defined) {
    const std::string where = str("@", func.name());
    std::set<std::string> names;
    for (const FuncResult& result : func.results) {
      if (!defined.contains(result.value)) report(where, "V1: a returned value is not defined");
      if (!names.insert(str(result.updates ? "%" : "", result.name)).second) {
        report(where, str("V12: two results are called ", result.name));
      }
      if (!result.updates) {
        if (!result.value->type.partial.axes.empty())
          report(where, str("V12: output ", in_quotes(result.name), " is partial"));
        continue;
      }
      const Value* arg = func.find_arg(result.name);
      if (arg == nullptr) {
        report(where, str("V11: no argument %", result.name, " to update"));
      } else if (module_.level == Level::Assigned
                     ? !(arg->type.logical() == result.value->type.logical())
                     : !(arg->type == result.value->type)) {
        report(where, str("V11: %", result.value->name, " updates %", result.name, " but has type ",
                          to_text(result.value->type, module_.grid), " instead of ",
                          to_text(arg->type, module_.grid)));
      }
    }
  }

  // V11: arguments of one name are one buffer in all functions.
  void check_states() {
    std::map<std::string, const Value*> first;
    for (const auto& func : module_.funcs()) {
      for (const Arg& arg : func->args()) {
        if (arg.kind == ArgKind::Input) continue;
        const auto [found, fresh] = first.try_emplace(arg.value->name, arg.value.get());
        if (!fresh && !(found->second->type == arg.value->type)) {
          report(str("@", func->name()),
                 str("V11: argument %", arg.value->name, " has another type in another function"));
        }
      }
    }
  }

  const Module& module_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify(const Module& module) { return Verifier(module).run(); }

void verify_or_throw(const Module& module, const std::string& after) {
  const std::vector<Diagnostic> found = verify(module);
  if (found.empty()) return;
  std::vector<std::string> notes = found[0].notes;
  for (std::size_t i = 1; i < std::min<std::size_t>(found.size(), 20); ++i)
    notes.push_back(to_text(found[i]));
  if (found.size() > 20) notes.push_back(str(found.size() - 20, " more"));
  throw CompileError(found[0].where,
                     str(found[0].message, after.empty() ? "" : str(" (", after, ")")), notes);
}

}  // namespace tessera
