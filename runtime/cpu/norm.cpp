// Layer norm and RMS norm over the last dimension. Means come first, then centred squares; sums are
// kept in double.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/kernel_list.h"
#include "runtime/cpu/rows.h"
#include "runtime/cpu/scratch.h"

namespace tessera::cpu {
namespace {

std::int64_t row_count(const TensorArg& arg) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d + 1 < arg.shape.size(); ++d) count *= arg.shape[d];
  return count;
}

// (x, gamma, beta) -> y, mean, rstd
template <class T>
void layer_norm(const KernelCall& call) {
  const std::int64_t n = call.operands[0].shape.back();
  const T* gamma = call.operands[1].as<T>();
  const T* beta = call.operands[2].as<T>();
  const double eps = call.attrs->number("eps");
  const double width = static_cast<double>(n);
  for (std::int64_t r = 0; r < row_count(call.operands[0]); ++r) {
    const T* x = call.operands[0].as<T>() + r * n;
    T* y = call.results[0].as<T>() + r * n;
    const double mean = row_sum<T>(n, [&](std::int64_t i) { return x[i]; }) / width;
    const double squares = row_sum<T>(n, [&](std::int64_t i) {
      const double centred = static_cast<double>(x[i]) - mean;
      return centred * centred;
    });
    const double rstd = 1.0 / std::sqrt(squares / width + eps);
    const T m = static_cast<T>(mean);
    const T s = static_cast<T>(rstd);
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * s * gamma[i] + beta[i];
    call.results[1].as<T>()[r] = m;
    call.results[2].as<T>()[r] = s;
  }
}

template <class T>
void store_columns(const double* sums, std::int64_t n, const TensorArg& result) {
  for (std::int64_t i = 0; i < n; ++i) result.as<T>()[i] = static_cast<T>(sums[i]);
}

// (dy, x, gamma, mean, rstd) -> dx, dgamma, dbeta; with h = dy gamma and c = (x - mean) rstd:
// dx = rstd (h - mean(h) - c mean(h c))
template <class T>
void layer_norm_grad(const KernelCall& call) {
  const std::int64_t n = call.operands[0].shape.back();
  const T* gamma = call.operands[2].as<T>();
  double* dgamma = scratch<double>(0, n);
  double* dbeta = scratch<double>(1, n);
  std::fill(dgamma, dgamma + n, 0.0);
  std::fill(dbeta, dbeta + n, 0.0);
  const double width = static_cast<double>(n);
  for (std::int64_t r = 0; r < row_count(call.operands[0]); ++r) {
    const T* dy = call.operands[0].as<T>() + r * n;
    const T* x = call.operands[1].as<T>() + r * n;
    T* dx = call.results[0].as<T>() + r * n;
    const T mean = call.operands[3].as<T>()[r];
    const T rstd = call.operands[4].as<T>()[r];
    const auto h = [&](std::int64_t i) { return dy[i] * gamma[i]; };
    const auto c = [&](std::int64_t i) { return (x[i] - mean) * rstd; };
    const T mean_h = static_cast<T>(row_sum<T>(n, h) / width);
    const T mean_hc =
        static_cast<T>(row_sum<T>(n, [&](std::int64_t i) { return h(i) * c(i); }) / width);
    for (std::int64_t i = 0; i < n; ++i) {
      dgamma[i] += static_cast<double>(dy[i] * c(i));
      dbeta[i] += static_cast<double>(dy[i]);
      dx[i] = rstd * (h(i) - mean_h - c(i) * mean_hc);
    }
  }
  store_columns<T>(dgamma, n, call.results[1]);
  store_columns<T>(dbeta, n, call.results[2]);
}

// (x, gamma) -> y, rstd
template <class T>
void rms_norm(const KernelCall& call) {
  const std::int64_t n = call.operands[0].shape.back();
  const T* gamma = call.operands[1].as<T>();
  const double eps = call.attrs->number("eps");
  for (std::int64_t r = 0; r < row_count(call.operands[0]); ++r) {
    const T* x = call.operands[0].as<T>() + r * n;
    T* y = call.results[0].as<T>() + r * n;
    const double squares = row_sum<T>(
        n, [&](std::int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
    const T rstd = static_cast<T>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * rstd * gamma[i];
    call.results[1].as<T>()[r] = rstd;
  }
}

// (dy, x, gamma, rstd) -> dx, dgamma; with h = dy gamma: dx = rstd (h - x rstd^2 mean(h x))
template <class T>
void rms_norm_grad(const KernelCall& call) {
  const std::int64_t n = call.operands[0].shape.back();
  const T* gamma = call.operands[2].as<T>();
  double* dgamma = scratch<double>(0, n);
  std::fill(dgamma, dgamma + n, 0.0);
  for (std::int64_t r = 0; r < row_count(call.operands[0]); ++r) {
    const T* dy = call.operands[0].as<T>() + r * n;
    const T* x = call.operands[1].as<T>() + r * n;
    T* dx = call.results[0].as<T>() + r * n;
    const T rstd = call.operands[3].as<T>()[r];
    const double dot = row_sum<T>(n, [&](std::int64_t i) { return dy[i] * gamma[i] * x[i]; }) /
                       static_cast<double>(n);
    const T factor = static_cast<T>(dot * static_cast<double>(rstd) * static_cast<double>(rstd));
    for (std::int64_t i = 0; i < n; ++i) {
      dgamma[i] += static_cast<double>(dy[i] * x[i] * rstd);
      dx[i] = rstd * (dy[i] * gamma[i] - x[i] * factor);
    }
  }
  store_columns<T>(dgamma, n, call.results[1]);
}

}  // namespace

void layer_norm_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { layer_norm<decltype(zero)>(call); });
}
void layer_norm_grad_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { layer_norm_grad<decltype(zero)>(call); });
}
void rms_norm_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind, [&](auto zero) { rms_norm<decltype(zero)>(call); });
}
void rms_norm_grad_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { rms_norm_grad<decltype(zero)>(call); });
}

}  // namespace tessera::cpu
