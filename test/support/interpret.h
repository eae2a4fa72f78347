// Runs a function on one device, op by op, with the kernels of runtime/cpu/evaluate.h: what any
// compiled form of it must compute. For tests; nothing is planned, fused or reused.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/base/text.h"
#include "ir/graph.h"
#include "runtime/cpu/evaluate.h"

namespace tessera::test {

// The results of `func` by their names (an updated argument by the argument's name). `args` holds
// one tensor for each argument that is used, by the argument's name and of its global shape.
// Collectives are not for one device.
inline std::map<std::string, Tensor> interpret(const Module& module, const Func& func,
                                               const std::map<std::string, Tensor>& args) {
  std::unordered_map<const Value*, Tensor> values;
  for (const Arg& arg : func.args()) {
    const auto given = args.find(arg.value->name);
    if (given == args.end()) {
      TESSERA_CHECK(!func.has_uses(arg.value.get()), "no tensor for argument %", arg.value->name);
      continue;
    }
    TESSERA_CHECK(given->second.shape() == arg.value->type.shape &&
                      given->second.dtype() == arg.value->type.dtype,
                  "argument %", arg.value->name, " has another type");
    values[arg.value.get()] = given->second;
  }
  std::unordered_map<const Value*, std::size_t> reads_left;
  for (const auto& op : func.ops()) {
    for (const Value* operand : op->operands) ++reads_left[operand];
  }
  for (const FuncResult& result : func.results) ++reads_left[result.value];
  for (const auto& op : func.ops()) {
    std::vector<Tensor> operands, results;
    for (const Value* operand : op->operands) operands.push_back(values.at(operand));
    if (op->kind == OpKind::Constant) {
      results.push_back(module.constants.at(op->attrs.text("data")));
    } else {
      std::vector<Type> types;
      for (const auto& result : op->results) types.push_back(result->type.logical());
      results = evaluate(op->kind, op->attrs, operands, types);
    }
    for (std::size_t i = 0; i < results.size(); ++i) values[op->results[i].get()] = results[i];
    for (const Value* operand : op->operands) {
      if (--reads_left[operand] == 0) values.erase(operand);
    }
  }
  std::map<std::string, Tensor> results;
  for (const FuncResult& result : func.results) results[result.name] = values.at(result.value);
  return results;
}

}  // namespace tessera::test
