// Plan -> text. See runtime/plan.h; runtime/plan_parse.cpp reads it back.
#include "ir/base/lexer.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"
#include "runtime/plan.h"

namespace tessera {
namespace {

std::string value_text(const PlanFunc& func, int index) {
  return str("%", func.values[static_cast<std::size_t>(index)].name);
}

std::string names_text(const PlanFunc& func, const std::vector<int>& values) {
  return join(values, ", ", [&](int index) { return value_text(func, index); });
}

// Lines of a fused body speak of values, not of buffers: only the step's own results have offsets.
std::string types_text(const PlanFunc& func, const std::vector<int>& values, const Grid& grid,
                       bool offsets = true) {
  return join(values, ", ", [&](int index) {
    const PlanValue& value = func.values[static_cast<std::size_t>(index)];
    return str(to_text(value.type, grid), offsets ? str(" @ ", value.offset) : "");
  });
}

std::string step_text(const PlanFunc& func, const PlanStep& step, const Grid& grid,
                      const std::string& indent, bool inside = false) {
  std::string text = str(indent, step.fused() ? "fused " : "", names_text(func, step.results),
                         " = ", step.fused() ? "" : op_word(step.kind, step.attrs));
  if (!step.operands.empty()) text += str(step.fused() ? "" : " ", names_text(func, step.operands));
  if (!step.fused()) text += attrs_text(step.attrs, step.kind, grid);
  text += str(" : ", types_text(func, step.results, grid, !inside));
  if (step.comm >= 0) text += str(" comm ", step.comm);
  if (!step.stream.empty()) text += str(" stream ", in_quotes(step.stream));
  if (!step.after.empty()) text += str(" after (", join(step.after, ","), ")");
  if (!step.origin.empty()) text += str(" from ", in_quotes(step.origin));
  if (!step.fused()) return text + "\n";
  text += " {\n";
  for (const PlanStep& inner : step.body) text += step_text(func, inner, grid, indent + "  ", true);
  return text + indent + "}\n";
}

std::string_view role_text(ArgRole role) {
  return role == ArgRole::Input ? "input" : role == ArgRole::Param ? "param" : "state";
}

std::string func_text(const PlanFunc& func, const Grid& grid) {
  std::string text = str("\nfunc @", func.name, " {\n");
  for (const PlanArg& arg : func.args) {
    text += str("  arg ", value_text(func, arg.value), " : ", types_text(func, {arg.value}, grid),
                " ", role_text(arg.role), "\n");
  }
  for (const PlanStep& step : func.steps) text += step_text(func, step, grid, "  ");
  for (const PlanResult& result : func.results) {
    text +=
        str("  return ", value_text(func, result.value),
            result.updates ? str(" updates %", result.name) : str(" as ", in_quotes(result.name)),
            "\n");
  }
  return text + "}\n";
}

std::string const_text(const std::string& key, const Tensor& tensor) {
  std::string text = str("const ", in_quotes(key), " : ",
                         to_text(Type(tensor.dtype(), tensor.shape()), Grid()), " = ");
  if (tensor.size() > kPlanInlineConstant)
    return text + str("file ", in_quotes(kPlanConstantsFile), "\n");
  return text + elements_text(tensor) + "\n";
}

}  // namespace

const PlanFunc* Plan::find(std::string_view name) const {
  for (const PlanFunc& func : funcs) {
    if (func.name == name) return &func;
  }
  return nullptr;
}

bool shares_bytes(const PlanFunc& func, const PlanStep& step) {
  if (step.fused() || (step.kind != OpKind::Wait && step.kind != OpKind::Reshape)) return false;
  return func.values[static_cast<std::size_t>(step.operands[0])].offset ==
         func.values[static_cast<std::size_t>(step.results[0])].offset;
}

std::string to_line(const PlanFunc& func, const PlanStep& step, const Grid& grid) {
  const std::string text = step_text(func, step, grid, "");
  return text.substr(0, text.find('\n'));
}

std::string to_text(const Plan& plan) {
  std::string text = str("tessera-plan ", plan.version, "\ngrid ", plan.grid.text(), "\ntarget ",
                         in_quotes(plan.target), "\nisa ", in_quotes(plan.isa), "\narena ",
                         plan.arena_bytes, " align ", plan.alignment, "\nmicro_batches ",
                         plan.micro_batches, "\nmodel ", in_quotes(plan.model), "\n");
  for (const auto& [key, value] : plan.notes)
    text += str("note ", in_quotes(key), " ", in_quotes(value), "\n");
  for (std::size_t i = 0; i < plan.comms.size(); ++i)
    text += str("comm ", i, " over ", plan.grid.text(plan.comms[i]), "\n");
  for (const auto& [arg, source] : plan.weights)
    text += str("weight %", arg, " = ", to_text(source), "\n");
  for (const auto& [key, tensor] : plan.constants) text += const_text(key, tensor);
  for (const PlanFunc& func : plan.funcs) text += func_text(func, plan.grid);
  return text + str("\nhash ", in_quotes(sha256(text)), "\n");
}

}  // namespace tessera
