// Factorisations of dimensions: which logical dimensions a flattened one consists of. Dimensions
// that ops tie together are one class; a class's factorisation is a set of cut points (suffix
// products), so that refining is taking unions.
//
//   size 96 with cut points {32, 8}   =   factors (3, 4, 8)
#pragma once
#include <set>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace tessera {

class DimFactors {
 public:
  // Ties, then propagates cut points through reshapes and slices to a fixed point.
  explicit DimFactors(const Func& func);

  // The refined sizes of one dimension: one entry, or several that multiply to its size.
  Shape factors(const Value* value, std::size_t dim) const;
  Shape refined_shape(const Value* value) const;
  // Index of the first refined dimension that `dim` became.
  std::int64_t refined_dim(const Value* value, std::size_t dim) const;
  bool refines_anything() const;

 private:
  using Cuts = std::set<std::int64_t>;

  int node(const Value* value, std::size_t dim) const;
  int root(int node) const;
  void tie(int a, int b);
  void add_values(const Func& func);
  void tie_op(const Op& op);
  void mark_borders(const Func& func);
  bool propagate(const Op& op);
  bool propagate_reshape(const Op& op);
  bool propagate_slice(const Op& op);
  bool add_cuts(int node, const Cuts& cuts);

  std::unordered_map<const Value*, int> first_node_;
  mutable std::vector<int> parent_;
  std::vector<std::int64_t> sizes_;
  std::vector<char> atomic_;  // by root, after tying
  std::vector<Cuts> cuts_;    // by root
};

}  // namespace tessera
