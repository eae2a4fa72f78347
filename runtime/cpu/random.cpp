// Uniform random numbers in [0, 1), keyed by the op's id, the seed and step operands, and the
// global element index.
#include "ir/base/random.h"

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/kernel_list.h"

namespace tessera::cpu {

void random_kernel(const KernelCall& call) {
  const TensorArg& result = call.results[0];
  std::uint64_t seed = 0, step = 0;
  if (!call.operands.empty())
    seed = static_cast<std::uint64_t>(*call.operands[0].as<std::int64_t>());
  if (call.operands.size() > 1)
    step = static_cast<std::uint64_t>(*call.operands[1].as<std::int64_t>());
  const std::uint64_t stream = (step << 20) ^ static_cast<std::uint64_t>(call.attrs->integer("id"));
  const auto global = row_major_strides(result.global);
  with_float(result.dtype, call.kind, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < result.size(); ++i) {
      std::int64_t rest = i, index = 0;
      for (std::size_t d = result.shape.size(); d-- > 0;) {
        index += (rest % result.shape[d] + result.offsets[d]) * global[d];
        rest /= result.shape[d];
      }
      result.as<T>()[i] =
          static_cast<T>(random_uniform(seed, stream, static_cast<std::uint64_t>(index)));
    }
  });
}

}  // namespace tessera::cpu
