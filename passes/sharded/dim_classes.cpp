#include "passes/sharded/dim_classes.h"

#include "ir/op_def.h"

namespace tessera {

DimClasses::DimClasses(const Module& module) {
  const auto add = [&](const Value* value) {
    first_node_[value] = static_cast<int>(parent_.size());
    for (std::int64_t size : value->type.shape) {
      parent_.push_back(static_cast<int>(parent_.size()));
      node_sizes_.push_back(size);
    }
  };
  for (const auto& func : module.funcs()) {
    for (const Arg& arg : func->args()) add(arg.value.get());
    for (const auto& op : func->ops()) {
      for (const auto& result : op->results) add(result.get());
    }
  }
  node_whole_.assign(parent_.size(), 0);
  for (const auto& func : module.funcs()) {
    for (const auto& op : func->ops()) tie_op(*op);
  }
  tie_functions(module);
  std::vector<ClassId> class_of_root(parent_.size(), -1);
  class_of_node_.resize(parent_.size());
  for (int i = 0; i < static_cast<int>(parent_.size()); ++i) {
    ClassId& id = class_of_root[static_cast<std::size_t>(root(i))];
    if (id < 0) {
      id = static_cast<ClassId>(sizes_.size());
      sizes_.push_back(node_sizes_[static_cast<std::size_t>(i)]);
      whole_.push_back(0);
    }
    class_of_node_[static_cast<std::size_t>(i)] = id;
    if (node_whole_[static_cast<std::size_t>(i)] != 0) whole_[static_cast<std::size_t>(id)] = 1;
  }
}

int DimClasses::node(const Value* value, std::size_t dim) const {
  return first_node_.at(value) + static_cast<int>(dim);
}

int DimClasses::root(int node) const {
  while (parent_[static_cast<std::size_t>(node)] != node) {
    int& up = parent_[static_cast<std::size_t>(node)];
    up = parent_[static_cast<std::size_t>(up)];
    node = up;
  }
  return node;
}

void DimClasses::tie(int a, int b) { parent_[static_cast<std::size_t>(root(b))] = root(a); }

void DimClasses::tie_op(const Op& op) {
  const IndexMap map = index_map(op);
  std::map<char, int> seen;
  const auto visit = [&](const std::string& term, const Value* value) {
    for (std::size_t d = 0; d < term.size(); ++d) {
      const int at = node(value, d);
      const auto [found, fresh] = seen.try_emplace(term[d], at);
      if (!fresh) tie(found->second, at);
      if (map.is_whole(term[d])) node_whole_[static_cast<std::size_t>(at)] = 1;
    }
  };
  for (std::size_t i = 0; i < map.operands.size(); ++i) visit(map.operands[i], op.operands[i]);
  for (std::size_t i = 0; i < map.results.size(); ++i) visit(map.results[i], op.results[i].get());
}

void DimClasses::tie_functions(const Module& module) {
  std::map<std::string, const Value*> first;
  for (const auto& func : module.funcs()) {
    for (const Arg& arg : func->args()) {
      if (arg.kind == ArgKind::Input) continue;
      const auto [found, fresh] = first.try_emplace(arg.value->name, arg.value.get());
      for (std::size_t d = 0; !fresh && d < arg.value->type.rank(); ++d)
        tie(node(found->second, d), node(arg.value.get(), d));
    }
    for (const FuncResult& result : func->results) {
      if (!result.updates) continue;
      const Value* arg = func->find_arg(result.name);
      for (std::size_t d = 0; d < arg->type.rank(); ++d) tie(node(arg, d), node(result.value, d));
    }
  }
}

ClassId DimClasses::of(const Value* value, std::size_t dim) const {
  return class_of_node_[static_cast<std::size_t>(node(value, dim))];
}

ClassId DimClasses::of_loop(const Op& op, const IndexMap& map, char loop) const {
  for (std::size_t i = 0; i < map.operands.size(); ++i) {
    const std::size_t at = map.operands[i].find(loop);
    if (at != std::string::npos) return of(op.operands[i], at);
  }
  for (std::size_t i = 0; i < map.results.size(); ++i) {
    const std::size_t at = map.results[i].find(loop);
    if (at != std::string::npos) return of(op.results[i].get(), at);
  }
  internal_error(__FILE__, __LINE__, str("loop ", loop, " is not in ", map.text()));
}

}  // namespace tessera
