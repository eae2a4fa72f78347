// Attention over grouped heads: b batch, S queries, g groups (key/value heads), r queries heads per
// group, T keys, D and E head dimensions. Batch and heads may be cut; a key head that serves a cut
// r has a partial gradient.
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "ir/ops/grads.h"

namespace tessera {
namespace {

IndexMap attention_map(const Op& op, std::vector<std::string> operands,
                       std::vector<std::string> results) {
  IndexMap map{std::move(operands), std::move(results), "STDE", ""};
  if (op.attrs.has("mask")) map.operands.push_back(op.attrs.text("mask"));
  return map;
}

IndexMap map_attention(const Op& op) {
  return attention_map(op, {"bSgrD", "bTgD", "bTgE"}, {"bSgrE", "bSgr"});
}

// (dout, q, k, v, out, lse [, mask]) -> dq, dk, dv
IndexMap map_attention_grad(const Op& op) {
  return attention_map(op, {"bSgrE", "bSgrD", "bTgD", "bTgE", "bSgrE", "bSgr"},
                       {"bSgrD", "bTgD", "bTgE"});
}

std::string check_mask(const Op& op) {
  if (!op.attrs.has("mask")) return {};
  for (char loop : op.attrs.text("mask")) {
    if (std::string_view("bSgrT").find(loop) == std::string_view::npos) {
      return str("mask has loop '", loop, "', only b, S, g, r and T may occur");
    }
  }
  return {};
}

}  // namespace

constinit const OpDef kAttention{.map = map_attention, .check = check_mask, .grad = grad_attention};
constinit const OpDef kAttentionGrad{.map = map_attention_grad, .check = check_mask};

}  // namespace tessera
