// Optimizer updates: elementwise over the parameter, with scalar operands (learning rate, step).
#include "ir/op_def.h"

namespace tessera {

constinit const OpDef kSgd{.index_map = "...,...,->..."};
constinit const OpDef kSgdMomentum{.index_map = "...,...,...,->...,..."};
constinit const OpDef kAdam{.index_map = "...,...,...,...,,->...,...,..."};

}  // namespace tessera
