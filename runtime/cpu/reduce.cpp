// Reductions. Operands are brought to [outer, reduced, inner]; sums of f32 are kept in double, so
// errors do not grow.
#include <algorithm>
#include <limits>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/kernel_list.h"
#include "runtime/cpu/permute.h"
#include "runtime/cpu/scratch.h"

namespace tessera::cpu {
namespace {

enum Slot { kDense = 0, kSums };

template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;

template <class T>
Wide<T> identity(OpKind kind) {
  using Limits = std::numeric_limits<Wide<T>>;
  switch (kind) {
    case OpKind::ReduceMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case OpKind::ReduceMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case OpKind::ReduceProd:
      return 1;
    default:
      return 0;
  }
}

template <class W>
W combined(OpKind kind, W a, W b) {
  switch (kind) {
    case OpKind::ReduceMax:
      return a != a ? a : (b != b ? b : std::max(a, b));
    case OpKind::ReduceMin:
      return a != a ? a : (b != b ? b : std::min(a, b));
    case OpKind::ReduceProd:
      return a * b;
    default:
      return a + b;
  }
}

struct Split {
  std::int64_t outer = 1, reduced = 1, inner = 1;
};

// Whether the reduced dimensions are neighbours, so that no copy is needed.
bool split_dims(const Shape& shape, const Ints& dims, Split& split) {
  std::size_t first = shape.size(), last = 0;
  for (std::int64_t dim : dims) {
    first = std::min(first, static_cast<std::size_t>(dim));
    last = std::max(last, static_cast<std::size_t>(dim) + 1);
  }
  if (!dims.empty() && last - first != dims.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool gone = std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end();
    (gone ? split.reduced : (d < first || dims.empty() ? split.outer : split.inner)) *= shape[d];
  }
  return true;
}

// Moves the reduced dimensions to the end.
template <class T>
const T* reduced_last(const TensorArg& operand, const Ints& dims, Split& split) {
  const auto dense = row_major_strides(operand.shape);
  Shape shape;
  std::vector<std::int64_t> strides;
  for (const bool gone : {false, true}) {
    for (std::size_t d = 0; d < operand.shape.size(); ++d) {
      if ((std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end()) != gone) continue;
      shape.push_back(operand.shape[d]);
      strides.push_back(dense[d]);
      (gone ? split.reduced : split.outer) *= operand.shape[d];
    }
  }
  T* copy = scratch<T>(kDense, elements(shape));
  copy_strided(operand.data, shape, strides, copy, sizeof(T));
  return copy;
}

template <class T>
void reduce(const KernelCall& call) {
  const TensorArg& operand = call.operands[0];
  const Ints& dims = call.attrs->ints("dims");
  Split split;
  const T* source = operand.as<T>();
  if (!split_dims(operand.shape, dims, split)) {
    split = {};
    source = reduced_last<T>(operand, dims, split);
  }
  T* out = call.results[0].as<T>();
  Wide<T>* sums = scratch<Wide<T>>(kSums, split.inner);
  for (std::int64_t o = 0; o < split.outer; ++o) {
    std::fill(sums, sums + split.inner, identity<T>(call.kind));
    const T* base = source + o * split.reduced * split.inner;
    for (std::int64_t r = 0; r < split.reduced; ++r) {
      const T* row = base + r * split.inner;
      for (std::int64_t i = 0; i < split.inner; ++i)
        sums[i] = combined<Wide<T>>(call.kind, sums[i], row[i]);
    }
    for (std::int64_t i = 0; i < split.inner; ++i)
      out[o * split.inner + i] = static_cast<T>(sums[i]);
  }
}

template <class T>
void arg_max(const KernelCall& call) {
  const Around s =
      around(call.operands[0].shape, static_cast<std::size_t>(call.attrs->integer("dim")));
  const T* source = call.operands[0].as<T>();
  std::int64_t* out = call.results[0].as<std::int64_t>();
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t i = 0; i < s.inner; ++i) {
      const T* base = source + o * s.size * s.inner + i;
      std::int64_t best = 0;
      for (std::int64_t r = 1; r < s.size; ++r) {
        if (base[r * s.inner] > base[best * s.inner]) best = r;
      }
      out[o * s.inner + i] = best;
    }
  }
}

template <class T>
void cum_sum(const KernelCall& call) {
  const Around s =
      around(call.operands[0].shape, static_cast<std::size_t>(call.attrs->integer("dim")));
  const T* source = call.operands[0].as<T>();
  T* out = call.results[0].as<T>();
  const bool reverse = call.attrs->flag("reverse");
  const bool exclusive = call.attrs->flag("exclusive");
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t i = 0; i < s.inner; ++i) {
      Wide<T> sum = 0;
      for (std::int64_t step = 0; step < s.size; ++step) {
        const std::int64_t r = reverse ? s.size - 1 - step : step;
        const std::int64_t at = (o * s.size + r) * s.inner + i;
        const T value = source[at];
        if (exclusive) out[at] = static_cast<T>(sum);
        sum += value;
        if (!exclusive) out[at] = static_cast<T>(sum);
      }
    }
  }
}

}  // namespace

void reduce_kernel(const KernelCall& call) {
  with_number(call.operands[0].dtype, call.kind, [&](auto zero) { reduce<decltype(zero)>(call); });
}
void arg_max_kernel(const KernelCall& call) {
  with_number(call.operands[0].dtype, call.kind, [&](auto zero) { arg_max<decltype(zero)>(call); });
}
void cum_sum_kernel(const KernelCall& call) {
  with_number(call.operands[0].dtype, call.kind, [&](auto zero) { cum_sum<decltype(zero)>(call); });
}

}  // namespace tessera::cpu
