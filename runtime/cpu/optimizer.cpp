// Optimizer updates, one pass over parameter and state, mostly in place: element i is read before
// it is written, and never again (ivdep). Bias corrections are computed in double from the step.
#include <cmath>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/kernel_list.h"

namespace tessera::cpu {
namespace {

// (p, g, lr) -> p
template <class T>
void sgd(const KernelCall& call) {
  const T* p = call.operands[0].as<T>();
  const T* g = call.operands[1].as<T>();
  const T lr = *call.operands[2].as<T>();
  const T decay = static_cast<T>(call.attrs->number("weight_decay"));
  T* out = call.results[0].as<T>();
  const std::int64_t n = call.results[0].size();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = p[i] - lr * (g[i] + decay * p[i]);
}

// (p, g, m, lr) -> p, m
template <class T>
void sgd_momentum(const KernelCall& call) {
  const T* p = call.operands[0].as<T>();
  const T* g = call.operands[1].as<T>();
  const T* m = call.operands[2].as<T>();
  const T lr = *call.operands[3].as<T>();
  const T decay = static_cast<T>(call.attrs->number("weight_decay"));
  const T momentum = static_cast<T>(call.attrs->number("momentum"));
  T* out = call.results[0].as<T>();
  T* out_m = call.results[1].as<T>();
  const std::int64_t n = call.results[0].size();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T next = momentum * m[i] + (g[i] + decay * p[i]);
    out_m[i] = next;
    out[i] = p[i] - lr * next;
  }
}

// (p, g, m, v, lr, step) -> p, m, v, as PyTorch's Adam and AdamW compute them.
template <class T>
void adam(const KernelCall& call) {
  const T* p = call.operands[0].as<T>();
  const T* g = call.operands[1].as<T>();
  const T* m = call.operands[2].as<T>();
  const T* v = call.operands[3].as<T>();
  const T lr = *call.operands[4].as<T>();
  const auto step = static_cast<double>(*call.operands[5].as<std::int64_t>());
  const double beta1 = call.attrs->number("beta1");
  const double beta2 = call.attrs->number("beta2");
  const T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2),
          eps = static_cast<T>(call.attrs->number("eps"));
  const T c1 = static_cast<T>(1.0 - beta1), c2 = static_cast<T>(1.0 - beta2);
  const double weight_decay = call.attrs->number("weight_decay");
  const bool decoupled = call.attrs->flag("decoupled");
  const T keep = static_cast<T>(decoupled ? 1.0 - static_cast<double>(lr) * weight_decay : 1.0);
  const T coupled = static_cast<T>(decoupled ? 0.0 : weight_decay);
  const T step_size = static_cast<T>(static_cast<double>(lr) / (1.0 - std::pow(beta1, step)));
  const T root = static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(beta2, step)));
  T* out = call.results[0].as<T>();
  T* out_m = call.results[1].as<T>();
  T* out_v = call.results[2].as<T>();
  const std::int64_t n = call.results[0].size();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T grad = g[i] + coupled * p[i];
    const T next_m = b1 * m[i] + c1 * grad;
    const T next_v = b2 * v[i] + c2 * grad * grad;
    out_m[i] = next_m;
    out_v[i] = next_v;
    out[i] = p[i] * keep - step_size * next_m / (std::sqrt(next_v) * root + eps);
  }
}

}  // namespace

void sgd_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind, [&](auto zero) { sgd<decltype(zero)>(call); });
}
void sgd_momentum_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { sgd_momentum<decltype(zero)>(call); });
}
void adam_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind, [&](auto zero) { adam<decltype(zero)>(call); });
}

}  // namespace tessera::cpu
