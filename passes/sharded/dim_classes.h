// Dimension classes: dimensions of all values that ops tie together through their index maps are
// one class. A class is one logical dimension of the model (batch, hidden of the residual stream,
// heads, MLP hidden, vocabulary), however many tensors carry it, and it is what grid axes are
// assigned to.
#pragma once
#include <map>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace tessera {

using ClassId = int;

class DimClasses {
 public:
  // Ties dimensions over all functions; arguments of one name are tied, and results with the
  // arguments they update.
  explicit DimClasses(const Module& module);

  ClassId of(const Value* value, std::size_t dim) const;
  // The class of a loop of this op: that of any dimension that carries it.
  ClassId of_loop(const Op& op, const IndexMap& map, char loop) const;
  std::int64_t size(ClassId id) const { return sizes_.at(static_cast<std::size_t>(id)); }
  // Whether some op needs this dimension whole (slices, attention's head_dim, ...). Expandable
  // loops do not count.
  bool is_whole(ClassId id) const { return whole_.at(static_cast<std::size_t>(id)) != 0; }
  std::size_t count() const { return sizes_.size(); }

 private:
  int node(const Value* value, std::size_t dim) const;
  int root(int node) const;
  void tie(int a, int b);
  void tie_op(const Op& op);
  void tie_functions(const Module& module);

  std::unordered_map<const Value*, int> first_node_;
  mutable std::vector<int> parent_;
  std::vector<std::int64_t> node_sizes_;
  std::vector<char> node_whole_;
  std::vector<ClassId> class_of_node_;
  std::vector<std::int64_t> sizes_;
  std::vector<char> whole_;
};

}  // namespace tessera
