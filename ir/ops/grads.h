// Gradients and expansions of op rows. A gradient function gets the gradient of each result (null:
// zero) and gives that of each operand (null: none). An expansion gives the results by primitive
// ops.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "ir/builder.h"

namespace tessera {

using Grads = std::vector<Value*>;
using ResultGrads = std::span<Value* const>;

#define TESSERA_GRAD(name) Grads name(Builder& b, const Op& op, ResultGrads dy);
#define TESSERA_EXPAND(name) std::vector<Value*> name(Builder& b, const Op& op);

TESSERA_GRAD(grad_neg)
TESSERA_GRAD(grad_abs)
TESSERA_GRAD(grad_exp)
TESSERA_GRAD(grad_log)
TESSERA_GRAD(grad_sqrt)
TESSERA_GRAD(grad_rsqrt)
TESSERA_GRAD(grad_reciprocal)
TESSERA_GRAD(grad_sin)
TESSERA_GRAD(grad_cos)
TESSERA_GRAD(grad_tanh)
TESSERA_GRAD(grad_erf)
TESSERA_GRAD(grad_sigmoid)
TESSERA_GRAD(grad_relu)
TESSERA_GRAD(grad_gelu)
TESSERA_GRAD(grad_gelu_tanh)
TESSERA_GRAD(grad_silu)
TESSERA_GRAD(grad_add)
TESSERA_GRAD(grad_sub)
TESSERA_GRAD(grad_mul)
TESSERA_GRAD(grad_div)
TESSERA_GRAD(grad_pow)
TESSERA_GRAD(grad_max)
TESSERA_GRAD(grad_min)
TESSERA_GRAD(grad_select)
TESSERA_GRAD(grad_cast)
TESSERA_GRAD(grad_zero)  // piecewise constant: floor, sign ...
TESSERA_GRAD(grad_einsum)
TESSERA_GRAD(grad_reduce_sum)
TESSERA_GRAD(grad_reduce_extreme)
TESSERA_GRAD(grad_cum_sum)
TESSERA_GRAD(grad_softmax)
TESSERA_GRAD(grad_log_softmax)
TESSERA_GRAD(grad_layer_norm)
TESSERA_GRAD(grad_rms_norm)
TESSERA_GRAD(grad_cross_entropy)
TESSERA_GRAD(grad_attention)
TESSERA_GRAD(grad_gather)
TESSERA_GRAD(grad_gather_elements)
TESSERA_GRAD(grad_reshape)
TESSERA_GRAD(grad_transpose)
TESSERA_GRAD(grad_slice)
TESSERA_GRAD(grad_pad)
TESSERA_GRAD(grad_concat)
TESSERA_GRAD(grad_broadcast)

TESSERA_EXPAND(expand_softmax)
TESSERA_EXPAND(expand_softmax_grad)
TESSERA_EXPAND(expand_log_softmax)
TESSERA_EXPAND(expand_log_softmax_grad)
TESSERA_EXPAND(expand_layer_norm)
TESSERA_EXPAND(expand_layer_norm_grad)
TESSERA_EXPAND(expand_rms_norm)
TESSERA_EXPAND(expand_rms_norm_grad)
TESSERA_EXPAND(expand_cross_entropy)
TESSERA_EXPAND(expand_cross_entropy_grad)

#undef TESSERA_GRAD
#undef TESSERA_EXPAND

}  // namespace tessera
