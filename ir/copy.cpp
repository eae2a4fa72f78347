#include "ir/copy.h"

#include <unordered_map>

namespace tessera {
namespace {

void copy_func(const Func& from, Func& to) {
  std::unordered_map<const Value*, Value*> copies;
  for (const Arg& arg : from.args())
    copies[arg.value.get()] = to.add_arg(arg.value->name, arg.value->type, arg.kind);
  for (const auto& op : from.ops()) {
    std::vector<Value*> operands;
    for (const Value* operand : op->operands) operands.push_back(copies.at(operand));
    std::vector<Type> types;
    for (const auto& result : op->results) types.push_back(result->type);
    Op* copy = to.insert(to.ops().end(), op->kind, std::move(operands), op->attrs, std::move(types),
                         op->results.empty() ? "" : op->result()->name);
    copy->loops = op->loops;
    copy->origin = op->origin;
    copy->location = op->location;
    for (std::size_t i = 0; i < op->results.size(); ++i) {
      if (copy->result(i)->name != op->result(i)->name)
        to.rename(copy->result(i), op->result(i)->name);
      copies[op->result(i)] = copy->result(i);
    }
  }
  for (const FuncResult& result : from.results)
    to.results.push_back({copies.at(result.value), result.name, result.updates});
}

}  // namespace

Module copy_of(const Module& module) {
  Module copy;
  copy.grid = module.grid;
  copy.level = module.level;
  copy.weights = module.weights;
  copy.constants = module.constants;
  copy.notes = module.notes;
  copy.micro_batches = module.micro_batches;
  for (const auto& func : module.funcs()) copy_func(*func, *copy.add_func(func->name()));
  return copy;
}

}  // namespace tessera
