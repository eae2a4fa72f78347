// Softmax and cross entropy over the last dimension, one row at a time, stable: the row's maximum
// is taken off first.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/kernel_list.h"
#include "runtime/cpu/rows.h"

namespace tessera::cpu {
namespace {

struct Rows {
  std::int64_t count, width;
};

Rows rows_of(const TensorArg& arg) {
  const std::int64_t width = arg.shape.back();
  std::int64_t count = 1;
  for (std::size_t d = 0; d + 1 < arg.shape.size(); ++d) count *= arg.shape[d];
  return {count, width};
}

template <class T>
void log_softmax(const KernelCall& call) {
  const Rows rows = rows_of(call.operands[0]);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const T* x = call.operands[0].as<T>() + r * rows.width;
    T* y = call.results[0].as<T>() + r * rows.width;
    const T lse = log_sum_exp(x, rows.width);
    for (std::int64_t i = 0; i < rows.width; ++i) y[i] = x[i] - lse;
  }
}

// (y, dy) -> dx = y (dy - sum(y dy)); of log_softmax: dx = dy - e^y sum(dy)
template <class T, bool kLog>
void softmax_grad(const KernelCall& call) {
  const Rows rows = rows_of(call.operands[0]);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const T* y = call.operands[0].as<T>() + r * rows.width;
    const T* dy = call.operands[1].as<T>() + r * rows.width;
    T* dx = call.results[0].as<T>() + r * rows.width;
    double sum = 0;
    for (std::int64_t i = 0; i < rows.width; ++i)
      sum += kLog ? double(dy[i]) : double(y[i]) * double(dy[i]);
    const T total = static_cast<T>(sum);
    for (std::int64_t i = 0; i < rows.width; ++i)
      dx[i] = kLog ? dy[i] - fast_exp(y[i]) * total : y[i] * (dy[i] - total);
  }
}

template <class T, class L>
void cross_entropy(const KernelCall& call) {
  const Rows rows = rows_of(call.operands[0]);
  const L ignored = static_cast<L>(call.attrs->integer("ignore"));
  const L* labels = call.operands[1].as<L>();
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const T* x = call.operands[0].as<T>() + r * rows.width;
    const T lse = log_sum_exp(x, rows.width);
    const bool counts = labels[r] != ignored;
    const bool fits = labels[r] >= 0 && labels[r] < static_cast<L>(rows.width);
    call.results[0].as<T>()[r] =
        !counts ? T(0) : (fits ? lse - x[labels[r]] : std::numeric_limits<T>::quiet_NaN());
    call.results[1].as<T>()[r] = lse;
  }
}

// (logits, labels, lse, dloss) -> (softmax - onehot) dloss
template <class T, class L>
void cross_entropy_grad(const KernelCall& call) {
  const Rows rows = rows_of(call.operands[0]);
  const L ignored = static_cast<L>(call.attrs->integer("ignore"));
  const L* labels = call.operands[1].as<L>();
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const T* x = call.operands[0].as<T>() + r * rows.width;
    T* dx = call.results[0].as<T>() + r * rows.width;
    if (labels[r] == ignored) {
      std::fill(dx, dx + rows.width, T(0));
      continue;
    }
    const T lse = call.operands[2].as<T>()[r];
    const T scale = call.operands[3].as<T>()[r];
    for (std::int64_t i = 0; i < rows.width; ++i) dx[i] = fast_exp(x[i] - lse) * scale;
    if (labels[r] >= 0 && labels[r] < static_cast<L>(rows.width)) dx[labels[r]] -= scale;
  }
}

}  // namespace

void softmax_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind, [&](auto zero) {
    using T = decltype(zero);
    const Rows rows = rows_of(call.operands[0]);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      softmax_row(call.operands[0].as<T>() + r * rows.width,
                  call.results[0].as<T>() + r * rows.width, rows.width);
    }
  });
}
void log_softmax_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { log_softmax<decltype(zero)>(call); });
}
void softmax_grad_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { softmax_grad<decltype(zero), false>(call); });
}
void log_softmax_grad_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { softmax_grad<decltype(zero), true>(call); });
}
void cross_entropy_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind, [&](auto zero) {
    with_index(call.operands[1].dtype, call.kind,
               [&](auto label) { cross_entropy<decltype(zero), decltype(label)>(call); });
  });
}
void cross_entropy_grad_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind, [&](auto zero) {
    with_index(call.operands[1].dtype, call.kind,
               [&](auto label) { cross_entropy_grad<decltype(zero), decltype(label)>(call); });
  });
}

}  // namespace tessera::cpu
