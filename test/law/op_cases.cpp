#include "test/support/op_cases.h"

#include "ir/base/random.h"

namespace tessera::test {
namespace {

void add_elementwise(std::vector<OpCase>& cases) {
  for (const OpKind kind :
       {OpKind::Neg, OpKind::Abs, OpKind::Sign, OpKind::Floor, OpKind::Ceil, OpKind::Round,
        OpKind::Exp, OpKind::Sin, OpKind::Cos, OpKind::Tanh, OpKind::Erf, OpKind::Sigmoid,
        OpKind::Relu, OpKind::Gelu, OpKind::GeluTanh, OpKind::Silu, OpKind::IsNan}) {
    cases.push_back({kind, {}, {"n:ab"}, {}});
  }
  for (const OpKind kind : {OpKind::Log, OpKind::Sqrt, OpKind::Rsqrt, OpKind::Reciprocal}) {
    cases.push_back({kind, {}, {"f:ab"}, {}});
  }
  for (const OpKind kind :
       {OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Max, OpKind::Min, OpKind::Equal,
        OpKind::NotEqual, OpKind::Less, OpKind::LessEqual, OpKind::Greater, OpKind::GreaterEqual,
        OpKind::ReluGrad, OpKind::GeluGrad, OpKind::GeluTanhGrad, OpKind::SiluGrad}) {
    cases.push_back({kind, {}, {"n:ab", "n:ab"}, {}});
  }
  for (const OpKind kind : {OpKind::Div, OpKind::Pow, OpKind::Mod}) {
    cases.push_back({kind, {}, {"f:ab", "f:ab"}, {}});
  }
  for (const OpKind kind : {OpKind::And, OpKind::Or, OpKind::Xor}) {
    cases.push_back({kind, {}, {"b:ab", "b:ab"}, {}});
  }
  cases.push_back({OpKind::Not, {}, {"b:ab"}, {}});
  cases.push_back({OpKind::Select, {}, {"b:ab", "n:ab", "n:ab"}, {}});
  cases.push_back({OpKind::Cast, {}, {"iV:ab"}, {"n:ab"}});
}

void add_sources(std::vector<OpCase>& cases) {
  cases.push_back({OpKind::Fill, {{"value", 2.5}}, {}, {"f:ab"}});
  cases.push_back({OpKind::Iota, {{"dim", std::int64_t{0}}}, {}, {"f:ab"}});
  cases.push_back({OpKind::Iota, {{"dim", std::int64_t{1}}}, {}, {"f:ab"}});
  cases.push_back({OpKind::Random, {{"id", std::int64_t{3}}}, {}, {"f:ab"}});
}

void add_contractions(std::vector<OpCase>& cases) {
  const auto einsum = [&](const char* spec, std::vector<std::string> operands) {
    cases.push_back({OpKind::Einsum, {{"spec", std::string(spec)}}, std::move(operands), {}});
  };
  einsum("mk,kn->mn", {"n:mk", "n:kn"});
  einsum("bmk,bkn->bmn", {"n:bmk", "n:bkn"});
  einsum("bsh,hcnd->bscnd", {"n:bsh", "n:hCnd"});
  einsum("bsnd,ndh->bsh", {"n:bsnd", "n:ndh"});
  einsum("bsv,bsh->vh", {"n:bsv", "n:bsh"});
  einsum("mk,nk->nm", {"n:mk", "n:nk"});
  einsum("amk,bkm->ab", {"n:amk", "n:bkm"});
  einsum("mk->km", {"n:mk"});
  einsum("mkn->k", {"n:mkn"});
  einsum("mk,n->mn", {"n:mk", "n:n"});
}

void add_reductions(std::vector<OpCase>& cases) {
  for (const OpKind kind :
       {OpKind::ReduceSum, OpKind::ReduceMax, OpKind::ReduceMin, OpKind::ReduceProd}) {
    cases.push_back({kind, {{"dims", Ints{1}}}, {"n:abc"}, {}});
    cases.push_back({kind, {{"dims", Ints{0, 2}}}, {"n:abc"}, {}});
    cases.push_back({kind, {{"dims", Ints{0, 1}}}, {"n:ab"}, {}});
  }
  cases.push_back({OpKind::ArgMax, {{"dim", std::int64_t{1}}}, {"n:aJb"}, {}});
  cases.push_back({OpKind::CumSum, {{"dim", std::int64_t{1}}}, {"n:aJb"}, {}});
}

void add_rows(std::vector<OpCase>& cases) {
  const AttrList eps{{"eps", 1e-5}};
  const AttrList ignore{{"ignore", std::int64_t{-100}}};
  cases.push_back({OpKind::Softmax, {}, {"n:abJ"}, {}});
  cases.push_back({OpKind::SoftmaxGrad, {}, {"f:abJ", "n:abJ"}, {}});
  cases.push_back({OpKind::LogSoftmax, {}, {"n:abJ"}, {}});
  cases.push_back({OpKind::LogSoftmaxGrad, {}, {"n:abJ", "n:abJ"}, {}});
  cases.push_back({OpKind::LayerNorm, eps, {"n:abJ", "n:J", "n:J"}, {}});
  cases.push_back({OpKind::LayerNormGrad, eps, {"n:abJ", "n:abJ", "n:J", "n:ab", "f:ab"}, {}});
  cases.push_back({OpKind::RmsNorm, eps, {"n:abJ", "n:J"}, {}});
  cases.push_back({OpKind::RmsNormGrad, eps, {"n:abJ", "n:abJ", "n:J", "f:ab"}, {}});
  cases.push_back({OpKind::CrossEntropy, ignore, {"n:abJ", "iJ:ab"}, {}});
  cases.push_back({OpKind::CrossEntropyGrad, ignore, {"n:abJ", "iJ:ab", "f:ab", "n:ab"}, {}});
}

void add_attention(std::vector<OpCase>& cases) {
  const std::vector<std::string> qkv{"n:bSgrD", "n:bTgD", "n:bTgE"};
  const std::vector<std::string> grad{"n:bSgrE", "n:bSgrD", "n:bTgD",
                                      "n:bTgE",  "n:bSgrE", "f:bSgr"};
  const auto add = [&](AttrList attrs, const std::string& mask) {
    OpCase forward{OpKind::Attention, attrs, qkv, {}};
    OpCase backward{OpKind::AttentionGrad, std::move(attrs), grad, {}};
    if (!mask.empty()) {
      forward.operands.push_back(mask);
      backward.operands.push_back(mask);
    }
    cases.push_back(forward);
    cases.push_back(backward);
  };
  add({{"scale", 0.5}, {"causal", true}}, "");
  for (const std::string mask : {"bT", "ST", "bgrST"})
    add({{"scale", 0.5}, {"mask", mask}}, "n:" + mask);
  // What is hidden keeps a weight here, but passes no gradient on.
  add({{"scale", 0.5}, {"causal", true}, {"hidden", -1.5}}, "");
  add({{"scale", 0.5}, {"mask", std::string("bST")}, {"hidden", -1.5}}, "b:bST");
  add({{"scale", 0.5}, {"causal", true}, {"mask", std::string("bT")}, {"hidden", -1.5}}, "n:bT");
}

void add_indexing(std::vector<OpCase>& cases) {
  const auto dim = [](std::int64_t d) { return AttrList{{"dim", d}}; };
  cases.push_back({OpKind::Gather, dim(0), {"n:vh", "iv:bs"}, {}});
  cases.push_back({OpKind::Gather, dim(1), {"n:avh", "iv:b"}, {}});
  cases.push_back({OpKind::ScatterAdd, dim(0), {"iv:bs", "n:bsh"}, {"n:vh"}});
  cases.push_back({OpKind::ScatterAdd, dim(1), {"iv:b", "n:abh"}, {"n:avh"}});
  cases.push_back({OpKind::GatherElements, dim(1), {"n:aJb", "iJ:aKb"}, {}});
  cases.push_back({OpKind::ScatterElements, dim(1), {"n:aJ", "iJ:aK", "n:aK"}, {}});
  cases.push_back({OpKind::GatherNd, {{"batch_dims", std::int64_t{0}}}, {"n:VJ", "iV:b1"}, {}});
  cases.push_back({OpKind::ScatterNd, {{"add", true}}, {"n:VJ", "iV:b1", "n:bJ"}, {}});
}

void add_movement(std::vector<OpCase>& cases) {
  const std::int64_t one = 1;
  cases.push_back({OpKind::Reshape, {}, {"n:abJ"}, {"n:ab23"}});
  cases.push_back({OpKind::Reshape, {}, {"n:a1b"}, {"n:ab1"}});
  cases.push_back({OpKind::Transpose, {{"perm", Ints{2, 0, 1}}}, {"n:abc"}, {}});
  cases.push_back({OpKind::Slice,
                   {{"dim", one}, {"start", one}, {"stop", one * 5}, {"step", one * 2}},
                   {"n:aJb"},
                   {}});
  cases.push_back({OpKind::Pad,
                   {{"dim", one}, {"low", one}, {"high", one * 2}, {"value", 1.5}},
                   {"n:aJb"},
                   {}});
  cases.push_back({OpKind::Concat, {{"dim", one}}, {"n:aJb", "n:aKb"}, {}});
  cases.push_back({OpKind::Broadcast, {{"dims", Ints{1}}}, {"n:b"}, {"n:abc"}});
  cases.push_back({OpKind::Broadcast, {{"dims", Ints{0, 2}}}, {"n:ac"}, {"n:abc"}});
}

void add_optimizers(std::vector<OpCase>& cases) {
  cases.push_back({OpKind::Sgd, {{"weight_decay", 0.1}}, {"n:ab", "n:ab", "f:"}, {}});
  cases.push_back({OpKind::SgdMomentum,
                   {{"momentum", 0.9}, {"weight_decay", 0.1}},
                   {"n:ab", "n:ab", "n:ab", "f:"},
                   {}});
  cases.push_back(
      {OpKind::Adam,
       {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"decoupled", true}},
       {"n:ab", "n:ab", "n:ab", "f:ab", "f:", "s:"},
       {}});
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> kCases = [] {
    std::vector<OpCase> cases;
    add_elementwise(cases);
    add_sources(cases);
    add_contractions(cases);
    add_reductions(cases);
    add_rows(cases);
    add_attention(cases);
    add_indexing(cases);
    add_movement(cases);
    add_optimizers(cases);
    return cases;
  }();
  return kCases;
}

// Fixed sizes for whole loops; for the others sizes that divide, that do not, ones, and more parts
// than elements.
std::int64_t letter_size(char letter, int variant) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter == 'J') return 6;
  if (letter >= 'A' && letter <= 'Z')
    return letter == 'V' ? 4 : (letter == 'D' || letter == 'C' ? 2 : 3);
  constexpr std::int64_t kSizes[kVariants][5] = {
      {6, 4, 6, 2, 12}, {5, 3, 7, 4, 1}, {1, 2, 5, 3, 7}, {2, 1, 1, 5, 3}};
  return kSizes[variant][letter % 5];
}

Type type_of(const std::string& text, int variant, DType floats) {
  const std::size_t colon = text.find(':');
  Shape shape;
  for (char letter : text.substr(colon + 1)) shape.push_back(letter_size(letter, variant));
  const char kind = text[0];
  const DType dtype = kind == 'b' ? DType::Bool : kind == 'i' || kind == 's' ? DType::I64 : floats;
  return {dtype, shape};
}

Tensor random_tensor(const std::string& text, int variant, DType floats, std::uint64_t seed) {
  const Type type = type_of(text, variant, floats);
  Tensor tensor(type.dtype, type.shape);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::uint64_t bits = random_bits(seed, 0, static_cast<std::uint64_t>(i)) >> 11;
    const auto whole = static_cast<std::int64_t>(bits % 7);
    switch (text[0]) {
      case 'b':
        tensor.mutable_view<std::uint8_t>()[at] = static_cast<std::uint8_t>(bits % 2);
        break;
      case 's':
        tensor.mutable_view<std::int64_t>()[at] = 3;
        break;
      case 'i': {
        const auto limit = static_cast<std::uint64_t>(letter_size(text[1], variant));
        tensor.mutable_view<std::int64_t>()[at] = static_cast<std::int64_t>(bits % limit);
        break;
      }
      default: {
        const double value = static_cast<double>(text[0] == 'f' ? 1 + whole % 5 : whole - 3);
        if (type.dtype == DType::F64) {
          tensor.mutable_view<double>()[at] = value;
        } else {
          tensor.mutable_view<float>()[at] = static_cast<float>(value);
        }
      }
    }
  }
  return tensor;
}

}  // namespace tessera::test
