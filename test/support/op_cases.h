// Instances of every op kind for the law tests. A tensor is written "kind:dims": lower case letters
// are loops whose size varies with the variant, upper case letters and digits have fixed sizes.
// Kinds: f positive floats, n floats of both signs, b bool, i<X> integers below the size of letter
// X.
#pragma once
#include <string>
#include <vector>

#include "ir/base/op_kind.h"
#include "ir/base/tensor.h"
#include "ir/base/type.h"

namespace tessera::test {

struct OpCase {
  OpKind kind;
  AttrList attrs;
  std::vector<std::string> operands;
  std::vector<std::string> results;  // only for ops with explicit result types
};

const std::vector<OpCase>& op_cases();

inline constexpr int kVariants = 4;
std::int64_t letter_size(char letter, int variant);
Type type_of(const std::string& text, int variant, DType floats);
// Small whole numbers, so that sums are exact.
Tensor random_tensor(const std::string& text, int variant, DType floats, std::uint64_t seed);

}  // namespace tessera::test
