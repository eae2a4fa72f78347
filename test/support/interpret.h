// Runs a logical function on one device, op by op, with the CPU kernels: the meaning that passes
// must preserve.
#pragma once
#include <map>
#include <string>

#include "ir/graph.h"
#include "runtime/cpu/evaluate.h"

namespace tessera::test {

// Arguments by name -> results by name ("%w" for those that update argument %w).
inline std::map<std::string, Tensor> interpret(const Module& module, const Func& func,
                                               const std::map<std::string, Tensor>& args) {
  std::map<const Value*, Tensor> values;
  for (const Arg& arg : func.args()) {
    const auto given = args.find(arg.value->name);
    values[arg.value.get()] =
        given != args.end() ? given->second : Tensor(arg.value->type.dtype, arg.value->type.shape);
  }
  for (const auto& op : func.ops()) {
    if (op->kind == OpKind::Constant) {
      values[op->result()] = module.constants.at(op->attrs.text("data"));
      continue;
    }
    std::vector<Tensor> operands;
    for (const Value* operand : op->operands) operands.push_back(values.at(operand));
    std::vector<Type> types;
    for (const auto& result : op->results) types.push_back(result->type);
    const std::vector<Tensor> results = evaluate(op->kind, op->attrs, operands, types);
    for (std::size_t i = 0; i < results.size(); ++i) values[op->result(i)] = results[i];
  }
  std::map<std::string, Tensor> outputs;
  for (const FuncResult& result : func.results) {
    outputs[(result.updates ? "%" : "") + result.name] = values.at(result.value);
  }
  return outputs;
}

}  // namespace tessera::test
