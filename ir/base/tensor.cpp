#include "ir/base/tensor.h"

#include <bit>
#include <cmath>

namespace tessera {

double Tensor::number(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  switch (dtype_) {
    case DType::F32:
      return static_cast<double>(view<float>()[at]);
    case DType::F64:
      return view<double>()[at];
    case DType::F16:
      return static_cast<double>(half_to_float(view<std::uint16_t>()[at]));
    case DType::BF16:
      return static_cast<double>(bfloat_to_float(view<std::uint16_t>()[at]));
    case DType::I64:
      return static_cast<double>(view<std::int64_t>()[at]);
    case DType::I32:
      return static_cast<double>(view<std::int32_t>()[at]);
    case DType::I16:
      return static_cast<double>(view<std::int16_t>()[at]);
    case DType::I8:
      return static_cast<double>(view<std::int8_t>()[at]);
    case DType::U8:
      return static_cast<double>(view<std::uint8_t>()[at]);
    case DType::Bool:
      return view<std::uint8_t>()[at] != 0 ? 1.0 : 0.0;
  }
  return 0.0;
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31u;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude <
      6.103515625e-05f) {  // subnormal halves: a multiple of 2^-24, rounded to even by nearbyint
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
  }
  const std::uint32_t rounded = (bits & 0x7fffffffu) + 0xfffu + ((bits >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace tessera
