#include "runtime/cpu/kernels.h"

#include "runtime/cpu/kernel_list.h"

namespace tessera::cpu {

Kernel find_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Constant: return nullptr;
    case OpKind::Fill:
    case OpKind::Iota:
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Sign:
    case OpKind::Floor:
    case OpKind::Ceil:
    case OpKind::Round:
    case OpKind::Exp:
    case OpKind::Log:
    case OpKind::Sqrt:
    case OpKind::Rsqrt:
    case OpKind::Reciprocal:
    case OpKind::Sin:
    case OpKind::Cos:
    case OpKind::Tanh:
    case OpKind::Erf:
    case OpKind::Sigmoid:
    case OpKind::Relu:
    case OpKind::Gelu:
    case OpKind::GeluTanh:
    case OpKind::Silu:
    case OpKind::ReluGrad:
    case OpKind::GeluGrad:
    case OpKind::GeluTanhGrad:
    case OpKind::SiluGrad:
    case OpKind::IsNan:
    case OpKind::Not:
    case OpKind::Add:
    case OpKind::Sub:
    case OpKind::Mul:
    case OpKind::Div:
    case OpKind::Pow:
    case OpKind::Mod:
    case OpKind::Max:
    case OpKind::Min:
    case OpKind::And:
    case OpKind::Or:
    case OpKind::Xor:
    case OpKind::Equal:
    case OpKind::NotEqual:
    case OpKind::Less:
    case OpKind::LessEqual:
    case OpKind::Greater:
    case OpKind::GreaterEqual:
    case OpKind::Select:
    case OpKind::Cast:
    case OpKind::Broadcast: return elementwise_kernel;
    case OpKind::Random: return random_kernel;
    case OpKind::Einsum: return einsum_kernel;
    case OpKind::ReduceSum:
    case OpKind::ReduceMax:
    case OpKind::ReduceMin:
    case OpKind::ReduceProd: return reduce_kernel;
    case OpKind::ArgMax: return arg_max_kernel;
    case OpKind::CumSum: return cum_sum_kernel;
    case OpKind::Softmax: return softmax_kernel;
    case OpKind::SoftmaxGrad: return softmax_grad_kernel;
    case OpKind::LogSoftmax: return log_softmax_kernel;
    case OpKind::LogSoftmaxGrad: return log_softmax_grad_kernel;
    case OpKind::LayerNorm: return layer_norm_kernel;
    case OpKind::LayerNormGrad: return layer_norm_grad_kernel;
    case OpKind::RmsNorm: return rms_norm_kernel;
    case OpKind::RmsNormGrad: return rms_norm_grad_kernel;
    case OpKind::CrossEntropy: return cross_entropy_kernel;
    case OpKind::CrossEntropyGrad: return cross_entropy_grad_kernel;
    case OpKind::Attention: return attention_kernel;
    case OpKind::AttentionGrad: return attention_grad_kernel;
    case OpKind::Gather: return gather_kernel;
    case OpKind::ScatterAdd: return scatter_add_kernel;
    case OpKind::GatherElements: return gather_elements_kernel;
    case OpKind::ScatterElements: return scatter_elements_kernel;
    case OpKind::GatherNd: return gather_nd_kernel;
    case OpKind::ScatterNd: return scatter_nd_kernel;
    case OpKind::Reshape: return reshape_kernel;
    case OpKind::Transpose: return transpose_kernel;
    case OpKind::Slice: return slice_kernel;
    case OpKind::Pad: return pad_kernel;
    case OpKind::Concat: return concat_kernel;
    case OpKind::Sgd: return sgd_kernel;
    case OpKind::SgdMomentum: return sgd_momentum_kernel;
    case OpKind::Adam: return adam_kernel;
    case OpKind::Reshard:
    case OpKind::AllReduce:
    case OpKind::AllGather:
    case OpKind::ReduceScatter:
    case OpKind::AllToAll:
    case OpKind::SliceToShard:
    case OpKind::KeepOnFirst: return nullptr;
  }
  return nullptr;
}

}  // namespace tessera::cpu
