// f32 functions that vectorise: straight-line code without calls, about one ulp from the true
// value. f64 uses libm. A value never depends on its neighbours or its place in a block.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::cpu {

// e^x = 2^n e^r with |r| <= ln2/2. The scale is applied in two halves, so that results below 2^-126
// are right too.
inline float fast_exp(float x) {
  const float clamped = x > 89.0f ? 89.0f : (x < -104.0f ? -104.0f : x);
  const float shifted =
      clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to a whole number
  const std::int32_t n = std::bit_cast<std::int32_t>(shifted) - 0x4B400000;
  const float whole = shifted - 12582912.0f;
  const float r = (clamped - whole * 0.693359375f) - whole * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float value = p * (r * r) + r + 1.0f;
  const std::int32_t half = n >> 1;
  const float low = std::bit_cast<float>((half + 127) << 23);
  const float high = std::bit_cast<float>((n - half + 127) << 23);
  return x != x ? x : value * low * high;
}

// Rational on small arguments, by e^2x elsewhere.
inline float fast_tanh(float x) {
  const float a = x < 0 ? -x : x;
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s + -5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s + -3.33332819422e-1f;
  const float small = p * s * x + x;
  const float large = 1.0f - 2.0f / (fast_exp(2.0f * a) + 1.0f);
  const float signed_large = x < 0 ? -large : large;
  return a < 0.625f ? small : (x != x ? x : signed_large);
}

inline float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }
inline double fast_exp(double x) { return std::exp(x); }
inline double fast_tanh(double x) { return std::tanh(x); }
inline double fast_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

template <class T>
inline T gelu(T x) {
  return T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440)));
}

template <class T>
inline T gelu_derivative(T x) {
  const T cdf = T(0.5) * (T(1) + std::erf(x * T(0.70710678118654752440)));
  return cdf + x * T(0.39894228040143267794) * fast_exp(T(-0.5) * x * x);
}

template <class T>
inline T gelu_tanh(T x) {
  const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + fast_tanh(inner));
}

template <class T>
inline T gelu_tanh_derivative(T x) {
  const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  const T t = fast_tanh(inner);
  const T slope = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * slope;
}

template <class T>
inline T silu_derivative(T x) {
  const T s = fast_sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}

}  // namespace tessera::cpu
