// Planted faults: sharded modules of real models are corrupted in hundreds of ways that change what
// they compute, and the type checker must reject them. Some mutants also re-derive all types after
// the fault, as a wrong pass would.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/import_onnx.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/pass_manager.h"

namespace tessera::test {
namespace {

std::string sharded_text(const std::string& model, const std::string& bind_batch,
                         std::int64_t batch, std::int64_t sequence, bool all_settings) {
  ImportOptions options;
  options.model = std::string(TESSERA_TEST_DATA) + "/models/" + model + "/model.onnx";
  options.bindings = {{bind_batch, batch}, {"sequence", sequence}};
  ImportResult imported = import_onnx(options);
  imported.module.grid = Grid::parse("data=2,z=2,y=2,x=2", "test");
  PassContext context;
  if (all_settings) {
    context.options.recompute = Recompute::Selective;
    context.options.regather = context.options.zero1 = true;
    context.options.scatter_tokens = context.options.scatter_features = true;
  }
  PassManager({{}, true}).run(imported.module, pipeline(true), context);
  return to_text(imported.module);
}

struct Tally {
  int mutants = 0, caught = 0, collective_mutants = 0, collective_caught = 0, meaningless = 0;
  std::vector<std::string> missed;
};

class Corrupter {
 public:
  explicit Corrupter(const std::string& text) : text_(text) {}

  // Applies `fault` to op number `at` of a fresh copy; nothing happens if it does not apply.
  template <class F>
  void plant(Tally& tally, std::size_t at, const char* name, bool touches_collective, bool rederive,
             F fault) {
    Module module = parse_module(text_, "mutant");
    Op* op = nth_op(module, at);
    if (!fault(module, *op)) return;
    if (rederive && !derive_all(module)) {
      // The derivation itself refused: that is the checker's rule at work.
      count(tally, touches_collective, true, name, "");
      return;
    }
    const bool caught = !verify(module).empty();
    const Op& now = *nth_op(module, at);
    const bool moved = !caught && name == std::string_view("move dim");
    if (to_text(module) == text_ || (moved && is_summed_over_all(now))) {
      ++tally.meaningless;
      return;
    }
    count(tally, touches_collective, caught, name, to_text(now, module.grid));
  }

  std::size_t op_count() const { return parse_ops().first; }
  std::vector<std::size_t> collectives() const { return parse_ops().second; }

 private:
  static void count(Tally& tally, bool collective, bool caught, const char* name,
                    const std::string& line) {
    ++tally.mutants;
    tally.caught += caught ? 1 : 0;
    tally.collective_mutants += collective ? 1 : 0;
    tally.collective_caught += collective && caught ? 1 : 0;
    if (!caught && tally.missed.size() < 10) tally.missed.push_back(str(name, ": ", line));
  }

  // A copy may be sliced along any dimension if all that reads it is a sum over all of them.
  static bool is_summed_over_all(const Op& op) {
    if (op.kind != OpKind::SliceToShard || op.result()->users.empty()) return false;
    return std::ranges::all_of(op.result()->users, [&](const Op* user) {
      return user->kind == OpKind::ReduceSum && user->result()->type.rank() == 0;
    });
  }

  static Op* nth_op(const Module& module, std::size_t at) {
    for (const auto& func : module.funcs()) {
      if (at < func->ops().size())
        return std::next(func->ops().begin(), static_cast<std::ptrdiff_t>(at))->get();
      at -= func->ops().size();
    }
    return nullptr;
  }

  std::pair<std::size_t, std::vector<std::size_t>> parse_ops() const {
    const Module module = parse_module(text_, "module");
    std::pair<std::size_t, std::vector<std::size_t>> result{0, {}};
    for (const auto& func : module.funcs()) {
      for (const auto& op : func->ops()) {
        if (family(op->kind) == OpFamily::Collective) result.second.push_back(result.first);
        ++result.first;
      }
    }
    return result;
  }

  // As a pass that trusts its input would: all result types follow from operand types.
  static bool derive_all(Module& module) {
    for (const auto& func : module.funcs()) {
      for (const auto& op : func->ops()) {
        const Derived derived = derive_types(*op, module.grid);
        if (!derived.problems.empty()) return false;
        for (std::size_t i = 0; i < op->results.size(); ++i)
          op->result(i)->type = derived.results[i];
      }
    }
    return true;
  }

  const std::string& text_;
};

bool drop(Module&, Op& op) {
  op.func->replace_all_uses(op.result(), op.operand(0));
  return true;
}

bool duplicate(Module&, Op& op) {
  Op* again = op.func->insert(std::next(op.place), op.kind, {op.result()}, op.attrs,
                              {op.result()->type}, "again");
  for (Op* user : std::vector<Op*>(op.result()->users)) {
    for (std::size_t i = 0; user != again && i < user->operands.size(); ++i) {
      if (user->operand(i) == op.result()) op.func->set_operand(user, i, again->result());
    }
  }
  return true;
}

bool retarget(Module& module, Op& op) {
  Axes axes = op.attrs.axes("over");
  axes[0] = (axes[0] + 1) % module.grid.axis_count();
  if (axes.size() > 1 && contains(without(axes, {axes[0]}), axes[0])) return false;
  op.attrs.set("over", AxesAttr{axes});
  return true;
}

bool move_dim(Module&, Op& op) {
  if (!op.attrs.has("dim") || op.result()->type.rank() < 2) return false;
  op.attrs.set("dim",
               (op.attrs.integer("dim") + 1) % static_cast<std::int64_t>(op.result()->type.rank()));
  return true;
}

bool wrong_operator(Module&, Op& op) {
  if (op.operand(0)->type.partial.axes.empty()) return false;
  op.operand(0)->type.partial.op =
      op.operand(0)->type.partial.op == ReduceOp::Sum ? ReduceOp::Max : ReduceOp::Sum;
  return true;
}

// A collective of another kind over the same axes.
bool other_kind(Module&, Op& op) {
  if (op.kind != OpKind::ReduceScatter && op.kind != OpKind::AllGather) return false;
  op.kind = op.kind == OpKind::ReduceScatter ? OpKind::AllGather : OpKind::ReduceScatter;
  return true;
}

// An op that reads a reduced value reads the addends instead.
bool read_addends(Module&, Op& op) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Op* source = op.operand(i)->def;
    if (source == nullptr || source->kind != OpKind::AllReduce) continue;
    op.func->set_operand(&op, i, source->operand(0));
    return true;
  }
  return false;
}

bool swap_axes(Module&, Op& op) {
  for (const auto& result : op.results) {
    for (Axes& axes : result->type.cuts) {
      if (axes.size() < 2) continue;
      std::swap(axes[0], axes[1]);
      return true;
    }
  }
  return false;
}

bool lose_cut(Module&, Op& op) {
  for (Axes& axes : op.result()->type.cuts) {
    if (axes.empty()) continue;
    axes.pop_back();
    return true;
  }
  return false;
}

bool lose_partial(Module&, Op& op) {
  if (op.result()->type.partial.axes.empty()) return false;
  op.result()->type.partial = {};
  return true;
}

TEST(PlantedFaults, AreCaughtByTheTypeChecker) {
  Tally tally;
  for (const auto& [model, batch, sequence, all_settings] : {std::tuple{"gpt2_odd", 6, 15, false},
                                                             {"llama_tiny", 8, 16, false},
                                                             {"bert_tiny", 4, 12, false},
                                                             {"gpt2_odd", 6, 15, true}}) {
    const std::string text = sharded_text(model, "batch", batch, sequence, all_settings);
    ASSERT_TRUE(verify(parse_module(text, "module")).empty());
    Corrupter corrupter(text);
    for (const std::size_t at : corrupter.collectives()) {
      for (const bool rederive : {false, true}) {
        corrupter.plant(tally, at, "drop", true, rederive, drop);
        corrupter.plant(tally, at, "double", true, rederive, duplicate);
        corrupter.plant(tally, at, "retarget", true, rederive, retarget);
        corrupter.plant(tally, at, "move dim", true, rederive, move_dim);
        corrupter.plant(tally, at, "other kind", true, rederive, other_kind);
      }
      corrupter.plant(tally, at, "wrong operator", true, false, wrong_operator);
    }
    for (std::size_t at = 0; at < corrupter.op_count(); at += 3) {
      corrupter.plant(tally, at, "read addends", false, false, read_addends);
      corrupter.plant(tally, at, "read addends, types again", false, true, read_addends);
      corrupter.plant(tally, at, "swap axes", false, false, swap_axes);
      corrupter.plant(tally, at, "lose a cut", false, false, lose_cut);
      corrupter.plant(tally, at, "lose partial", false, false, lose_partial);
    }
  }
  std::cout << "mutants " << tally.mutants << " caught " << tally.caught << ", of collectives "
            << tally.collective_mutants << " caught " << tally.collective_caught << ", unchanged "
            << tally.meaningless << "\n";
  for (const std::string& missed : tally.missed) std::cout << "missed: " << missed << "\n";
  EXPECT_GT(tally.mutants, 500);
  EXPECT_EQ(tally.collective_caught, tally.collective_mutants);
  EXPECT_GE(tally.caught, 0.98 * tally.mutants);
}

}  // namespace
}  // namespace tessera::test
