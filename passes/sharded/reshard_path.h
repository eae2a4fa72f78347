// The cheapest sequence of collectives from one type to another: a shortest path over types, one
// grid axis a move, by bytes that a rank sends (ring algorithms). Neighbouring moves of one kind
// are then joined.
#pragma once
#include <functional>
#include <vector>

#include "ir/graph.h"

namespace tessera {

struct ReshardMove {
  OpKind kind = OpKind::AllReduce;
  Axes over;
  std::int64_t dim = -1;   // all_gather, reduce_scatter, slice_to_shard; the target of all_to_all
  std::int64_t from = -1;  // all_to_all
  Type result;
};

struct ReshardPath {
  std::vector<ReshardMove> moves;
  double bytes = 0;  // sent by the busiest rank, plus a small charge per move
};

// Both types have one dtype and shape. Throws InternalError if no sequence exists (it always does:
// gather, then cut).
ReshardPath cheapest_reshard(const Type& from, const Type& to, const Grid& grid);

// The collectives between these types: (kind, axes, bytes of the larger side). For estimates: the
// path is that of large dimensions and axes of two devices, and is kept for all types that differ
// in names of axes and in what stays as it is; real sizes may prefer another.
void each_collective(const Type& from, const Type& to, const Grid& grid,
                     const std::function<void(OpKind kind, const Axes& over, double bytes)>& visit);

}  // namespace tessera
