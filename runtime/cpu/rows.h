// Stable row functions shared by softmax, cross entropy and attention. Sums are kept in eight
// double lanes that are added in a fixed order.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/math.h"

namespace tessera::cpu {

template <class T>
T row_max(const T* x, std::int64_t n) {
  T best = -std::numeric_limits<T>::infinity();
  bool nan = false;
  for (std::int64_t i = 0; i < n; ++i) {
    best = x[i] > best ? x[i] : best;
    nan = nan || x[i] != x[i];
  }
  return nan ? std::numeric_limits<T>::quiet_NaN() : best;
}

template <class T, class F>
double row_sum(std::int64_t n, F term) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(term(i + l));
  }
  for (; i < n; ++i) lanes[i % kLanes] += static_cast<double>(term(i));
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

// A row of nothing but -inf gives NaN, as the formula says.
template <class T>
void softmax_row(const T* x, T* y, std::int64_t n) {
  const T top = row_max(x, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = fast_exp(x[i] - top);
  const double sum = row_sum<T>(n, [&](std::int64_t i) { return y[i]; });
  const T factor = static_cast<T>(1.0 / sum);
  for (std::int64_t i = 0; i < n; ++i) y[i] *= factor;
}

template <class T>
T log_sum_exp(const T* x, std::int64_t n) {
  const T top = row_max(x, n);
  if (n == 0 || top == -std::numeric_limits<T>::infinity())
    return -std::numeric_limits<T>::infinity();
  const double sum = row_sum<T>(n, [&](std::int64_t i) { return fast_exp(x[i] - top); });
  return static_cast<T>(static_cast<double>(top) + std::log(sum));
}

}  // namespace tessera::cpu
