#include "runtime/cpu/elementwise_block.h"

#include <algorithm>
#include <type_traits>

#include "ir/base/tensor.h"
#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/math.h"

namespace tessera::cpu {
namespace {

template <class T, class Out, class F>
void map1(const BlockOperands& in, void* out, std::size_t count, F f) {
  const T* a = static_cast<const T*>(in.a);
  Out* o = static_cast<Out*>(out);
  for (std::size_t i = 0; i < count; ++i) o[i] = f(a[i]);
}

template <class T, class Out, class F>
void map2(const BlockOperands& in, void* out, std::size_t count, F f) {
  const T* a = static_cast<const T*>(in.a);
  const T* b = static_cast<const T*>(in.b);
  Out* o = static_cast<Out*>(out);
  for (std::size_t i = 0; i < count; ++i) o[i] = f(a[i], b[i]);
}

template <class T>
T power(T base, T exponent) {
  if constexpr (std::is_floating_point_v<T>) {
    if (exponent == T(2)) return base * base;
    if (exponent == T(3)) return base * base * base;
    if (exponent == T(0.5)) return std::sqrt(base);
    return std::pow(base, exponent);
  } else {
    if (exponent < 0) return base == 1 ? T(1) : (base == -1 ? T(exponent % 2 == 0 ? 1 : -1) : T(0));
    std::make_unsigned_t<T> result = 1;
    auto factor = static_cast<std::make_unsigned_t<T>>(base);
    for (; exponent > 0; exponent /= 2) {
      if (exponent % 2 == 1) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
}

template <class T>
T divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (b == -1)
      return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(a));
  }
  return a / b;
}

template <class T>
T remainder_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0 || b == -1) return 0;
    const T r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  }
}

// Integers wrap, as on every machine, without undefined behaviour.
template <class T, class F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return f(a, b);
  }
}

template <class T>
bool number_block(OpKind kind, const BlockOperands& in, void* out, std::size_t n) {
  using B = std::uint8_t;
  switch (kind) {
    case OpKind::Neg:
      map1<T, T>(in, out, n,
                 [](T a) { return wrapping(T(0), a, [](auto x, auto y) { return x - y; }); });
      return true;
    case OpKind::Abs:
      map1<T, T>(in, out, n, [](T a) {
        return a < 0 ? wrapping(T(0), a, [](auto x, auto y) { return x - y; })
                     : (a == 0 ? T(0) : a);
      });
      return true;
    case OpKind::Sign:
      map1<T, T>(in, out, n, [](T a) { return a > 0 ? T(1) : (a < 0 ? T(-1) : a); });
      return true;
    case OpKind::Relu:
      map1<T, T>(in, out, n, [](T a) { return a < 0 ? T(0) : a; });
      return true;
    case OpKind::Add:
      map2<T, T>(in, out, n,
                 [](T a, T b) { return wrapping(a, b, [](auto x, auto y) { return x + y; }); });
      return true;
    case OpKind::Sub:
      map2<T, T>(in, out, n,
                 [](T a, T b) { return wrapping(a, b, [](auto x, auto y) { return x - y; }); });
      return true;
    case OpKind::Mul:
      map2<T, T>(in, out, n,
                 [](T a, T b) { return wrapping(a, b, [](auto x, auto y) { return x * y; }); });
      return true;
    case OpKind::Div:
      map2<T, T>(in, out, n, divided<T>);
      return true;
    case OpKind::Pow:
      map2<T, T>(in, out, n, power<T>);
      return true;
    case OpKind::Mod:
      map2<T, T>(in, out, n, remainder_of<T>);
      return true;
    case OpKind::Max:
      map2<T, T>(in, out, n, [](T a, T b) { return a != a ? a : (b != b ? b : (a < b ? b : a)); });
      return true;
    case OpKind::Min:
      map2<T, T>(in, out, n, [](T a, T b) { return a != a ? a : (b != b ? b : (b < a ? b : a)); });
      return true;
    case OpKind::Equal:
      map2<T, B>(in, out, n, [](T a, T b) { return B(a == b); });
      return true;
    case OpKind::NotEqual:
      map2<T, B>(in, out, n, [](T a, T b) { return B(a != b); });
      return true;
    case OpKind::Less:
      map2<T, B>(in, out, n, [](T a, T b) { return B(a < b); });
      return true;
    case OpKind::LessEqual:
      map2<T, B>(in, out, n, [](T a, T b) { return B(a <= b); });
      return true;
    case OpKind::Greater:
      map2<T, B>(in, out, n, [](T a, T b) { return B(a > b); });
      return true;
    case OpKind::GreaterEqual:
      map2<T, B>(in, out, n, [](T a, T b) { return B(a >= b); });
      return true;
    default:
      return false;
  }
}

template <class T>
bool float_block(OpKind kind, const BlockOperands& in, void* out, std::size_t n) {
  using B = std::uint8_t;
  switch (kind) {
    case OpKind::Floor:
      map1<T, T>(in, out, n, [](T a) { return std::floor(a); });
      return true;
    case OpKind::Ceil:
      map1<T, T>(in, out, n, [](T a) { return std::ceil(a); });
      return true;
    case OpKind::Round:
      map1<T, T>(in, out, n, [](T a) { return std::nearbyint(a); });
      return true;
    case OpKind::Exp:
      map1<T, T>(in, out, n, [](T a) { return fast_exp(a); });
      return true;
    case OpKind::Log:
      map1<T, T>(in, out, n, [](T a) { return std::log(a); });
      return true;
    case OpKind::Sqrt:
      map1<T, T>(in, out, n, [](T a) { return std::sqrt(a); });
      return true;
    case OpKind::Rsqrt:
      map1<T, T>(in, out, n, [](T a) { return T(1) / std::sqrt(a); });
      return true;
    case OpKind::Reciprocal:
      map1<T, T>(in, out, n, [](T a) { return T(1) / a; });
      return true;
    case OpKind::Sin:
      map1<T, T>(in, out, n, [](T a) { return std::sin(a); });
      return true;
    case OpKind::Cos:
      map1<T, T>(in, out, n, [](T a) { return std::cos(a); });
      return true;
    case OpKind::Tanh:
      map1<T, T>(in, out, n, [](T a) { return fast_tanh(a); });
      return true;
    case OpKind::Erf:
      map1<T, T>(in, out, n, [](T a) { return std::erf(a); });
      return true;
    case OpKind::Sigmoid:
      map1<T, T>(in, out, n, [](T a) { return fast_sigmoid(a); });
      return true;
    case OpKind::Gelu:
      map1<T, T>(in, out, n, [](T a) { return gelu(a); });
      return true;
    case OpKind::GeluTanh:
      map1<T, T>(in, out, n, [](T a) { return gelu_tanh(a); });
      return true;
    case OpKind::Silu:
      map1<T, T>(in, out, n, [](T a) { return a * fast_sigmoid(a); });
      return true;
    case OpKind::IsNan:
      map1<T, B>(in, out, n, [](T a) { return B(a != a); });
      return true;
    case OpKind::ReluGrad:
      map2<T, T>(in, out, n, [](T x, T dy) { return x > 0 ? dy : T(0); });
      return true;
    case OpKind::GeluGrad:
      map2<T, T>(in, out, n, [](T x, T dy) { return dy * gelu_derivative(x); });
      return true;
    case OpKind::GeluTanhGrad:
      map2<T, T>(in, out, n, [](T x, T dy) { return dy * gelu_tanh_derivative(x); });
      return true;
    case OpKind::SiluGrad:
      map2<T, T>(in, out, n, [](T x, T dy) { return dy * silu_derivative(x); });
      return true;
    default:
      return false;
  }
}

bool bool_block(OpKind kind, const BlockOperands& in, void* out, std::size_t n) {
  using B = std::uint8_t;
  switch (kind) {
    case OpKind::Not:
      map1<B, B>(in, out, n, [](B a) { return B(a == 0); });
      return true;
    case OpKind::And:
      map2<B, B>(in, out, n, [](B a, B b) { return B(a & b); });
      return true;
    case OpKind::Or:
      map2<B, B>(in, out, n, [](B a, B b) { return B(a | b); });
      return true;
    case OpKind::Xor:
    case OpKind::NotEqual:
      map2<B, B>(in, out, n, [](B a, B b) { return B(a != b); });
      return true;
    case OpKind::Equal:
      map2<B, B>(in, out, n, [](B a, B b) { return B(a == b); });
      return true;
    default:
      return false;
  }
}

void select_block(DType dtype, const BlockOperands& in, void* out, std::size_t n) {
  with_size_of(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* c = static_cast<const std::uint8_t*>(in.a);
    const auto* a = static_cast<const T*>(in.b);
    const auto* b = static_cast<const T*>(in.c);
    auto* o = static_cast<T*>(out);
    for (std::size_t i = 0; i < n; ++i) o[i] = c[i] != 0 ? a[i] : b[i];
  });
}

template <class From, class To>
To converted(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (value != value) return To(0);  // out of range saturates: C++ leaves it undefined
    if (value >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    if (value <= static_cast<From>(std::numeric_limits<To>::lowest()))
      return std::numeric_limits<To>::lowest();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Calls `run` with a value of the C++ type that holds `dtype`; 16-bit floats go through float.
template <class F>
void with_value_type(DType dtype, F&& run) {
  switch (dtype) {
    case DType::F32:
      return run(float{});
    case DType::F64:
      return run(double{});
    case DType::I64:
      return run(std::int64_t{});
    case DType::I32:
      return run(std::int32_t{});
    case DType::I16:
      return run(std::int16_t{});
    case DType::I8:
      return run(std::int8_t{});
    case DType::U8:
      return run(std::uint8_t{});
    case DType::Bool:
      return run(bool{});
    case DType::F16:
    case DType::BF16:
      refuse_dtype(OpKind::Cast, dtype);
  }
}

void widen(DType from, const void* in, float* out, std::size_t n) {
  const auto* bits = static_cast<const std::uint16_t*>(in);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = from == DType::F16 ? half_to_float(bits[i]) : bfloat_to_float(bits[i]);
}

void narrow(DType to, const float* in, void* out, std::size_t n) {
  auto* bits = static_cast<std::uint16_t*>(out);
  for (std::size_t i = 0; i < n; ++i)
    bits[i] = to == DType::F16 ? float_to_half(in[i]) : float_to_bfloat(in[i]);
}

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

}  // namespace

void cast_block(DType from, DType to, const void* in, void* out, std::size_t count) {
  constexpr std::size_t kChunk = 256;
  if (is_half(from) || is_half(to)) {
    float buffer[kChunk];
    for (std::size_t at = 0; at < count; at += kChunk) {
      const std::size_t n = std::min(kChunk, count - at);
      const auto* source = static_cast<const std::byte*>(in) + at * byte_size(from);
      auto* target = static_cast<std::byte*>(out) + at * byte_size(to);
      if (is_half(from)) {
        widen(from, source, buffer, n);
      } else {
        cast_block(from, DType::F32, source, buffer, n);
      }
      if (is_half(to)) {
        narrow(to, buffer, target, n);
      } else {
        cast_block(DType::F32, to, buffer, target, n);
      }
    }
    return;
  }
  with_value_type(from, [&](auto a) {
    with_value_type(to, [&](auto b) {
      using From = decltype(a);
      using To = decltype(b);
      const auto* source = static_cast<const From*>(in);
      auto* target = static_cast<To*>(out);
      for (std::size_t i = 0; i < count; ++i) target[i] = converted<From, To>(source[i]);
    });
  });
}

void run_block(OpKind kind, DType dtype, const BlockOperands& in, void* out, std::size_t count) {
  if (kind == OpKind::Select) return select_block(dtype, in, out, count);
  if (dtype == DType::Bool) {
    if (!bool_block(kind, in, out, count)) refuse_dtype(kind, dtype);
    return;
  }
  bool done = false;
  with_number(dtype, kind,
              [&](auto zero) { done = number_block<decltype(zero)>(kind, in, out, count); });
  if (done) return;
  if (kind == OpKind::Floor || kind == OpKind::Ceil || kind == OpKind::Round) {
    if (is_integer(dtype)) return cast_block(dtype, dtype, in.a, out, count);
  }
  with_float(dtype, kind,
             [&](auto zero) { done = float_block<decltype(zero)>(kind, in, out, count); });
  TESSERA_CHECK(done, mnemonic(kind), " is not elementwise");
}

}  // namespace tessera::cpu
