// Row ops over the last dimension: softmax, norms, cross entropy. J is whole in the fused kernels;
// rows that have an expansion let a plan cut it, by primitives whose partial states the type
// checker understands.
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

std::vector<Type> infer_cross_entropy(const Op& op) {
  Shape rows = op.operands[0]->type.shape;
  rows.pop_back();
  return {{op.operands[0]->type.dtype, rows}, {op.operands[0]->type.dtype, rows}};
}

std::string integer_labels(const Op& op) {
  return is_integer(op.operands[1]->type.dtype) ? "" : "labels are not integers";
}

}  // namespace

constinit const OpDef kSoftmax{
    .index_map = "...J->...J", .grad = grad_softmax, .expand = expand_softmax};
constinit const OpDef kSoftmaxGrad{.index_map = "...J,...J->...J", .expand = expand_softmax_grad};
constinit const OpDef kLogSoftmax{
    .index_map = "...J->...J", .grad = grad_log_softmax, .expand = expand_log_softmax};
constinit const OpDef kLogSoftmaxGrad{.index_map = "...J,...J->...J",
                                      .expand = expand_log_softmax_grad};
constinit const OpDef kLayerNorm{
    .index_map = "...J,J,J->...J,...,...", .grad = grad_layer_norm, .expand = expand_layer_norm};
constinit const OpDef kLayerNormGrad{.index_map = "...J,...J,J,...,...->...J,J,J",
                                     .expand = expand_layer_norm_grad};
constinit const OpDef kRmsNorm{
    .index_map = "...J,J->...J,...", .grad = grad_rms_norm, .expand = expand_rms_norm};
constinit const OpDef kRmsNormGrad{.index_map = "...J,...J,J,...->...J,J",
                                   .expand = expand_rms_norm_grad};
constinit const OpDef kCrossEntropy{.index_map = "...J,...->...,...",
                                    .infer = infer_cross_entropy,
                                    .check = integer_labels,
                                    .grad = grad_cross_entropy,
                                    .expand = expand_cross_entropy};
constinit const OpDef kCrossEntropyGrad{.index_map = "...J,...,...,...->...J",
                                        .check = integer_labels,
                                        .expand = expand_cross_entropy_grad};

}  // namespace tessera
