// The collectives of plans, over any Group: everything about sizes and offsets follows from the
// operand's and result's types and the rank's coordinates, also for sizes that do not divide and
// for empty pieces.
#pragma once
#include "ir/base/op_kind.h"
#include "ir/base/type.h"
#include "runtime/comm.h"

namespace tessera {

struct CollectiveCall {
  OpKind kind = OpKind::AllReduce;
  const AttrList* attrs = nullptr;
  const Type* operand_type = nullptr;
  const Type* result_type = nullptr;
  const Grid* grid = nullptr;
  int rank = 0;
  const std::byte* operand = nullptr;
  std::byte* result = nullptr;
  std::string what;  // for errors: "all_reduce %p over y"
};

// Runs all_reduce, all_gather, reduce_scatter or all_to_all over `group`, whose members are
// grid.group(rank, over).
void run_collective(const CollectiveCall& call, Group& group);
// Runs slice_to_shard or keep_on_first: no communication.
void run_local_reshard(const CollectiveCall& call);

}  // namespace tessera
