// Collectives and reshard: they change only how a value is spread, never what it is. Their typing
// rules stand in ir/verify_collectives.cpp, since they speak of axes, not of loops.
#include "ir/op_def.h"

namespace tessera {

constinit const OpDef kReshard{.index_map = "...->...", .explicit_type = true};
constinit const OpDef kAllReduce{.index_map = "...->...", .explicit_type = true};
constinit const OpDef kAllGather{.index_map = "...->...", .explicit_type = true};
constinit const OpDef kReduceScatter{.index_map = "...->...", .explicit_type = true};
constinit const OpDef kAllToAll{.index_map = "...->...", .explicit_type = true};
constinit const OpDef kSliceToShard{.index_map = "...->...", .explicit_type = true};
constinit const OpDef kKeepOnFirst{.index_map = "...->...", .explicit_type = true};
constinit const OpDef kWait{.index_map = "...->...", .explicit_type = true};

}  // namespace tessera
