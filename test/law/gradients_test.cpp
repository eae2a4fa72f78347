// Law 4: gradients match finite differences, for every differentiable op; and expansions equal the
// fused op.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/base/random.h"
#include "ir/base/text.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "test/support/interpret.h"
#include "test/support/op_cases.h"

namespace tessera::test {
namespace {

// loss = sum over the first result of result * weights, with fixed irregular weights.
struct Problem {
  Module module;
  std::map<std::string, Tensor> args;
  std::vector<std::string> params;
};

Tensor irregular(const Shape& shape, std::uint64_t seed, double low) {
  Tensor tensor(DType::F64, shape);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    tensor.mutable_view<double>()[static_cast<std::size_t>(i)] =
        low + random_uniform(seed, 5, static_cast<std::uint64_t>(i));
  }
  return tensor;
}

bool make_problem(const OpCase& c, int variant, Problem& p) {
  Func& func = *p.module.add_func("micro");
  std::vector<Value*> operands;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Type type = type_of(c.operands[i], variant, DType::F64);
    const std::string name = str("a", i);
    const bool is_mask = c.kind == OpKind::Attention && i == 3;
    const bool trains = type.dtype == DType::F64 && !is_mask;
    operands.push_back(func.add_arg(name, type, trains ? ArgKind::Param : ArgKind::Input));
    p.args[name] = random_tensor(c.operands[i], variant, DType::F64, 3 + i);
    if (!trains) continue;
    WeightSource source;
    source.tensor = name;
    source.shape = type.shape;
    source.dtype = DType::F64;
    p.module.weights[name] = source;
    p.params.push_back(name);
    p.args[name] = irregular(type.shape, 40 + i, c.operands[i][0] == 'f' ? 0.5 : -0.5);
  }
  if (p.params.empty()) return false;
  Builder b(p.module, func);
  Value* result = c.results.empty() ? b.emit_all(c.kind, operands, c.attrs)[0]
                                    : b.emit_typed(c.kind, operands, c.attrs,
                                                   type_of(c.results[0], variant, DType::F64));
  if (!is_float(result->type.dtype)) return false;
  Value* weighted = b.mul(result, b.constant(irregular(result->type.shape, 77, 0.3)));
  Ints all;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(result->type.rank()); ++d)
    all.push_back(d);
  Value* state = func.add_arg("loss", Type(DType::F64, {}), ArgKind::State);
  func.results.push_back({b.reduce_sum(weighted, all), state->name, true});
  p.module.notes["loss"] = "loss";
  return true;
}

bool has_gradient(OpKind kind) { return op_def(kind).grad != nullptr; }

TEST(Gradients, MatchFiniteDifferences) {
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    Problem p;
    if (!has_gradient(c.kind) || !make_problem(c, 1, p)) continue;
    PassContext context;
    differentiate(p.module, context);
    ASSERT_TRUE(verify(p.module).empty()) << mnemonic(c.kind);
    const Func& func = *p.module.find("micro");
    const auto results = interpret(p.module, func, p.args);
    for (const std::string& name : p.params) {
      const auto found = results.find("%" + name + ".grad");
      if (found == results.end()) continue;  // does not reach the loss
      const std::int64_t size = p.args[name].size();
      for (std::int64_t i = 0; i < size; i += 1 + size / 7) {
        const double h = 1e-5;
        double loss[2];
        for (int side : {0, 1}) {
          auto shifted = p.args;
          Tensor copy(DType::F64, p.args[name].shape());
          std::memcpy(copy.mutable_data(), p.args[name].data(), copy.bytes());
          copy.mutable_view<double>()[static_cast<std::size_t>(i)] += side == 0 ? h : -h;
          shifted[name] = copy;
          loss[side] = interpret(p.module, func, shifted).at("%loss").number(0);
        }
        const double expected = (loss[0] - loss[1]) / (2 * h);
        const double actual = found->second.number(i);
        EXPECT_NEAR(actual, expected, 2e-6 * std::fmax(1.0, std::fabs(expected)))
            << mnemonic(c.kind) << " " << name << "[" << i << "]";
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 60);
}

TEST(Expansions, EqualTheFusedOp) {
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    if (op_def(c.kind).expand == nullptr) continue;
    for (int variant = 0; variant < kVariants; ++variant) {
      Module module;
      Func& func = *module.add_func("f");
      std::map<std::string, Tensor> args;
      std::vector<Value*> operands;
      for (std::size_t i = 0; i < c.operands.size(); ++i) {
        operands.push_back(
            func.add_arg(str("a", i), type_of(c.operands[i], variant, DType::F64), ArgKind::Input));
        args[str("a", i)] = random_tensor(c.operands[i], variant, DType::F64, 3 + i);
      }
      if (c.kind == OpKind::CrossEntropy || c.kind == OpKind::CrossEntropyGrad) {
        args["a1"].mutable_view<std::int64_t>()[0] = -100;  // an ignored label
      }
      Builder b(module, func);
      const auto fused = b.emit_all(c.kind, operands, c.attrs);
      const auto expanded = op_def(c.kind).expand(b, *fused[0]->def);
      ASSERT_EQ(fused.size(), expanded.size());
      for (std::size_t i = 0; i < fused.size(); ++i) {
        func.results.push_back({fused[i], str("fused", i), false});
        func.results.push_back({expanded[i], str("expanded", i), false});
      }
      const auto results = interpret(module, func, args);
      for (std::size_t i = 0; i < fused.size(); ++i) {
        const Tensor& x = results.at(str("fused", i));
        const Tensor& y = results.at(str("expanded", i));
        for (std::int64_t k = 0; k < x.size(); ++k) {
          ASSERT_NEAR(x.number(k), y.number(k), 1e-9 * std::fmax(1.0, std::fabs(x.number(k))))
              << mnemonic(c.kind) << " result " << i;
        }
      }
      ++checked;
    }
  }
  EXPECT_EQ(checked, 10 * kVariants);
}

}  // namespace
}  // namespace tessera::test
