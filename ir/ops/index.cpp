// Reads and writes through indices. A lookup is a contraction with a one-hot, so the table's
// looked-up dimension may be cut: ids outside the local part give zero, and the result is a partial
// sum.
#include <algorithm>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

std::size_t checked_dim(const Op& op, std::size_t rank) {
  const std::int64_t dim = op.attrs.integer("dim");
  if (dim < 0 || dim >= static_cast<std::int64_t>(rank)) {
    throw CompileError(op.origin,
                       str(mnemonic(op.kind), ": dim ", dim, " of a value of rank ", rank));
  }
  return static_cast<std::size_t>(dim);
}

// (table avh, ids bs) -> absh
IndexMap map_gather(const Op& op) {
  const std::size_t dim = checked_dim(op, op.operands[0]->type.rank());
  const std::string table = fresh_loops(op.operands[0]->type.rank(), "");
  const std::string ids = fresh_loops(op.operands[1]->type.rank(), table);
  return {{table, ids}, {table.substr(0, dim) + ids + table.substr(dim + 1)}, "", ""};
}

// (ids bs, updates absh) -> avh
IndexMap map_scatter_add(const Op& op) {
  const std::size_t dim = checked_dim(op, op.results[0]->type.rank());
  const std::string table = fresh_loops(op.results[0]->type.rank(), "");
  const std::string ids = fresh_loops(op.operands[0]->type.rank(), table);
  return {{ids, table.substr(0, dim) + ids + table.substr(dim + 1)}, {table}, "", ""};
}

std::string integer_ids(const Op& op) {
  const Value* ids = op.operands[op.kind == OpKind::ScatterAdd ? 0 : 1];
  return is_integer(ids->type.dtype) ? "" : str("ids have dtype ", name(ids->type.dtype));
}

// (data, ids) -> like ids. A dimension on which both have one size is free, except the one that is
// indexed.
IndexMap map_gather_elements(const Op& op) {
  const std::size_t rank = op.operands[0]->type.rank();
  const std::size_t dim = checked_dim(op, rank);
  const std::string data = fresh_loops(rank, "");
  const std::string fresh = fresh_loops(rank, data);
  std::string ids;
  IndexMap map;
  for (std::size_t d = 0; d < rank; ++d) {
    const bool shared = d != dim && d < op.operands[1]->type.rank() &&
                        op.operands[1]->type.shape[d] == op.operands[0]->type.shape[d];
    ids += shared ? data[d] : fresh[d];
    if (!shared) map.whole += data[d];
    if (!shared && d != dim) map.whole += fresh[d];
  }
  map.operands = {data, ids};
  map.results = {ids};
  return map;
}

// Every dimension is whole.
IndexMap map_scatter_elements(const Op& op) {
  IndexMap map;
  const std::string data = fresh_loops(op.operands[0]->type.rank(), "");
  const std::string ids = fresh_loops(op.operands[1]->type.rank(), data);
  map.operands = {data, ids, ids};
  map.results = {data};
  map.whole = data + ids;
  return map;
}

std::size_t last_size(const Value* indices) {
  return static_cast<std::size_t>(indices->type.shape.back());
}

IndexMap map_gather_nd(const Op& op) {
  const Type& data = op.operands[0]->type;
  const Type& indices = op.operands[1]->type;
  const auto batch = static_cast<std::size_t>(op.attrs.integer("batch_dims"));
  if (indices.rank() == 0 || batch + last_size(op.operands[1]) > data.rank() ||
      batch >= indices.rank()) {
    throw CompileError(op.origin, "gather_nd: indices do not fit the data");
  }
  const std::string source = fresh_loops(data.rank(), "");
  const std::string at = source.substr(0, batch) + fresh_loops(indices.rank() - batch, source);
  IndexMap map{{source, at},
               {at.substr(0, at.size() - 1) + source.substr(batch + last_size(op.operands[1]))},
               "",
               ""};
  map.whole = map.loops();
  return map;
}

IndexMap map_scatter_nd(const Op& op) {
  const Type& data = op.operands[0]->type;
  const Type& indices = op.operands[1]->type;
  if (indices.rank() == 0 || last_size(op.operands[1]) > data.rank()) {
    throw CompileError(op.origin, "scatter_nd: indices do not fit the data");
  }
  const std::string target = fresh_loops(data.rank(), "");
  const std::string at = fresh_loops(indices.rank(), target);
  IndexMap map{{target, at, at.substr(0, at.size() - 1) + target.substr(last_size(op.operands[1]))},
               {target},
               "",
               ""};
  map.whole = map.loops();
  return map;
}

}  // namespace

constinit const OpDef kGather{
    .map = map_gather, .linear = Linearity::First, .check = integer_ids, .grad = grad_gather};
constinit const OpDef kScatterAdd{.map = map_scatter_add,
                                  .linear = Linearity::Branches,
                                  .explicit_type = true,
                                  .check = integer_ids};
constinit const OpDef kGatherElements{.map = map_gather_elements,
                                      .linear = Linearity::First,
                                      .check = integer_ids,
                                      .grad = grad_gather_elements};
constinit const OpDef kScatterElements{.map = map_scatter_elements, .check = integer_ids};
constinit const OpDef kGatherNd{.map = map_gather_nd, .check = integer_ids};
constinit const OpDef kScatterNd{.map = map_scatter_nd, .check = integer_ids};

}  // namespace tessera
