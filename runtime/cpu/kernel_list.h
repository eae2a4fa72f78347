// The kernels behind find_kernel, one function per family or op.
#pragma once
#include "runtime/cpu/kernels.h"

namespace tessera::cpu {

void elementwise_kernel(
    const KernelCall& call);  // every elementwise kind, fill, iota and broadcast, by run_fused
void random_kernel(const KernelCall& call);
void einsum_kernel(const KernelCall& call);
void reduce_kernel(const KernelCall& call);
void arg_max_kernel(const KernelCall& call);
void cum_sum_kernel(const KernelCall& call);
void softmax_kernel(const KernelCall& call);
void softmax_grad_kernel(const KernelCall& call);
void log_softmax_kernel(const KernelCall& call);
void log_softmax_grad_kernel(const KernelCall& call);
void layer_norm_kernel(const KernelCall& call);
void layer_norm_grad_kernel(const KernelCall& call);
void rms_norm_kernel(const KernelCall& call);
void rms_norm_grad_kernel(const KernelCall& call);
void cross_entropy_kernel(const KernelCall& call);
void cross_entropy_grad_kernel(const KernelCall& call);
void attention_kernel(const KernelCall& call);
void attention_grad_kernel(const KernelCall& call);
void gather_kernel(const KernelCall& call);
void scatter_add_kernel(const KernelCall& call);
void gather_elements_kernel(const KernelCall& call);
void scatter_elements_kernel(const KernelCall& call);
void gather_nd_kernel(const KernelCall& call);
void scatter_nd_kernel(const KernelCall& call);
void reshape_kernel(const KernelCall& call);
void transpose_kernel(const KernelCall& call);
void slice_kernel(const KernelCall& call);
void pad_kernel(const KernelCall& call);
void concat_kernel(const KernelCall& call);
void sgd_kernel(const KernelCall& call);
void sgd_momentum_kernel(const KernelCall& call);
void adam_kernel(const KernelCall& call);

}  // namespace tessera::cpu
