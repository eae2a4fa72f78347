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
  constexpr int kLanes = 8;
  T best[kLanes];
  T nan[kLanes] = {};  // 0, or NaN
  std::fill(best, best + kLanes, -std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const T value = x[i + l];
      best[l] = value > best[l] ? value : best[l];
      nan[l] = value == value ? nan[l] : value;
    }
  }
  for (; i < n; ++i) {
    best[i % kLanes] = x[i] > best[i % kLanes] ? x[i] : best[i % kLanes];
    nan[i % kLanes] = x[i] == x[i] ? nan[i % kLanes] : x[i];
  }
  T top = best[0], any_nan = nan[0];
  for (int l = 1; l < kLanes; ++l) {
    top = best[l] > top ? best[l] : top;
    any_nan += nan[l];
  }
  return any_nan == any_nan ? top : any_nan;
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

// y = e^(x - top); x and y may be one row. Gives the sum.
template <class T>
double exp_row(const T* x, T top, T* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = fast_exp(x[i] - top);
  return row_sum<T>(n, [&](std::int64_t i) { return y[i]; });
}

// A row of nothing but -inf gives NaN, as the formula says. Gives log sum e^x, -inf for such a row.
template <class T>
T softmax_row(const T* x, T* y, std::int64_t n) {
  const T top = row_max(x, n);
  const double sum = exp_row(x, top, y, n);
  const T factor = static_cast<T>(1.0 / sum);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] *= factor;
  if (n == 0 || top == -std::numeric_limits<T>::infinity())
    return -std::numeric_limits<T>::infinity();
  return static_cast<T>(static_cast<double>(top) + std::log(sum));
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
