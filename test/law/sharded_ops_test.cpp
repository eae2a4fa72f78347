// Law 3: every op, under every sharding that the type checker allows, computes what the uncut op
// computes: sizes that divide and that do not, single elements, empty pieces, partial operands.
// Ranks are evaluated one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "ir/base/random.h"
#include "ir/base/text.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/cpu/evaluate.h"
#include "runtime/cpu/permute.h"
#include "test/support/op_cases.h"

namespace tessera::test {
namespace {

const Grid kGrid({{"p", 2}, {"q", 3}});

Tensor piece_of(const Tensor& whole, const Type& type, const Coordinates& at) {
  Tensor piece(type.dtype, local_shape(type, kGrid, at));
  const Shape start = local_offsets(type, kGrid, at);
  const auto strides = row_major_strides(type.shape);
  std::int64_t before = 0;
  for (std::size_t d = 0; d < start.size(); ++d) before += start[d] * strides[d];
  const std::size_t bytes = byte_size(type.dtype);
  cpu::copy_strided(whole.data() + static_cast<std::size_t>(before) * bytes, piece.shape(), strides,
                    piece.mutable_data(), bytes);
  return piece;
}

// The addend of one rank: whole numbers that add up to the value over the partial axes.
Tensor addend_of(const Tensor& whole, const Type& type, const Coordinates& at, std::uint64_t seed) {
  if (type.partial.axes.empty()) return whole;
  const int rank = kGrid.rank(at);
  const int parts = kGrid.size(type.partial.axes);
  const int own = kGrid.group_index(rank, type.partial.axes);
  Tensor addend(whole.dtype(), whole.shape());
  for (std::int64_t i = 0; i < whole.size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    double others = 0;
    double value = 0;
    for (int part = 1; part < parts; ++part) {
      const double random = static_cast<double>(random_bits(seed, static_cast<std::uint64_t>(part),
                                                            static_cast<std::uint64_t>(i)) %
                                                9) -
                            4;
      others += random;
      if (part == own) value = random;
    }
    if (type.partial.op == ReduceOp::Sum) {
      addend.mutable_view<double>()[index] = own == 0 ? whole.number(i) - others : value;
    } else {  // max or min: one rank has the value, others something that loses
      const double loses = type.partial.op == ReduceOp::Max ? -5.0 : 5.0;
      const bool has = static_cast<int>(i) % parts == own;
      addend.mutable_view<double>()[index] = has ? whole.number(i) : whole.number(i) + loses;
    }
  }
  return addend;
}

double combined(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::Sum:
      return a + b;
    case ReduceOp::Max:
      return std::fmax(a, b);
    case ReduceOp::Min:
      return std::fmin(a, b);
    case ReduceOp::Prod:
      return a * b;
  }
  return a;
}

// The whole value from all ranks' pieces; copies must agree bit for bit.
void check_result(const std::vector<Tensor>& pieces, const Type& type, const Tensor& expected,
                  const std::string& what) {
  std::vector<double> sum(static_cast<std::size_t>(expected.size()), std::nan(""));
  std::vector<std::set<int>> seen(sum.size());
  std::vector<double> copies(sum.size() * static_cast<std::size_t>(kGrid.ranks()), std::nan(""));
  for (int rank = 0; rank < kGrid.ranks(); ++rank) {
    const Coordinates at = kGrid.coordinates(rank);
    const Shape shape = local_shape(type, kGrid, at), start = local_offsets(type, kGrid, at);
    const auto strides = row_major_strides(type.shape);
    const Tensor& piece = pieces[static_cast<std::size_t>(rank)];
    for (std::int64_t i = 0; i < piece.size(); ++i) {
      std::int64_t rest = i, index = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        index += (rest % shape[d] + start[d]) * strides[d];
        rest /= shape[d];
      }
      const int part = kGrid.group_index(rank, type.partial.axes);
      const auto slot = static_cast<std::size_t>(index);
      double& copy =
          copies[slot * static_cast<std::size_t>(kGrid.ranks()) + static_cast<std::size_t>(part)];
      const double value = piece.number(i);
      if (seen[slot].insert(part).second) {
        copy = value;
        sum[slot] = seen[slot].size() == 1 ? value : combined(type.partial.op, sum[slot], value);
      } else {
        const bool same = copy == value || (std::isnan(copy) && std::isnan(value));
        EXPECT_TRUE(same) << what << ": copies differ at " << index << ": " << copy << " and "
                          << value;
      }
    }
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double want = expected.number(static_cast<std::int64_t>(i));
    const bool same = sum[i] == want || (std::isnan(sum[i]) && std::isnan(want)) ||
                      std::fabs(sum[i] - want) <= 1e-10 * std::fmax(1.0, std::fabs(want));
    ASSERT_TRUE(same) << what << ": element " << i << " is " << sum[i] << ", must be " << want;
  }
}

struct Built {
  Module module;
  Op* op = nullptr;
};

Built build(const OpCase& c, int variant) {
  Built built;
  built.module.grid = kGrid;
  built.module.level = Level::Sharded;
  Func& func = *built.module.add_func("f");
  std::vector<Value*> operands;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    operands.push_back(
        func.add_arg(str("a", i), type_of(c.operands[i], variant, DType::F64), ArgKind::Input));
  }
  Builder b(built.module, func);
  Value* result = c.results.empty() ? b.emit_all(c.kind, operands, c.attrs)[0]
                                    : b.emit_typed(c.kind, operands, c.attrs,
                                                   type_of(c.results[0], variant, DType::F64));
  built.op = result->def;
  return built;
}

// One choice for one axis: unused, cutting a loop, or an operand (or all of them) partial over it.
struct AxisChoice {
  char loop = 0;
  int partial_operand = -1;  // operand index; -2: all
  ReduceOp reduce = ReduceOp::Sum;
};

std::vector<AxisChoice> choices(const Op& op, const IndexMap& map) {
  std::vector<AxisChoice> all{{}};
  for (char loop : map.loops()) {
    if (!map.is_whole(loop) && !map.is_expandable(loop)) all.push_back({loop, -1, ReduceOp::Sum});
  }
  for (const ReduceOp reduce : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min}) {
    all.push_back({0, -2, reduce});
    for (int i = 0; i < static_cast<int>(op.operands.size()); ++i) all.push_back({0, i, reduce});
  }
  return all;
}

// Gives operand and result types for a choice of both axes; false if the type checker refuses.
bool assign(Op& op, const IndexMap& map, const AxisChoice (&choice)[2], bool swapped) {
  std::vector<Value*> values = op.operands;
  for (const auto& result : op.results) values.push_back(result.get());
  for (Value* value : values) {
    value->type.cuts.assign(value->type.rank(), {});
    value->type.partial = {};
  }
  for (const AxisId axis : swapped ? Axes{1, 0} : Axes{0, 1}) {
    const AxisChoice& own = choice[axis];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_operand = i < op.operands.size();
      const std::string& term = is_operand ? map.operands[i] : map.results[i - op.operands.size()];
      for (std::size_t d = 0; d < term.size(); ++d) {
        if (own.loop != 0 && term[d] == own.loop) values[i]->type.cuts[d].push_back(axis);
      }
      const bool partial =
          is_operand && (own.partial_operand == -2 || own.partial_operand == static_cast<int>(i));
      if (!partial) continue;
      if (values[i]->type.dtype != DType::F64) return false;
      if (!values[i]->type.partial.axes.empty() && values[i]->type.partial.op != own.reduce)
        return false;
      values[i]->type.partial = {own.reduce, concatenated(values[i]->type.partial.axes, {axis})};
      std::ranges::sort(values[i]->type.partial.axes);
    }
  }
  const Derived derived = derive_types(op, kGrid);
  if (!derived.problems.empty()) return false;
  for (std::size_t i = 0; i < op.results.size(); ++i) op.result(i)->type = derived.results[i];
  return true;
}

void run_case(const OpCase& c, int variant, int& checked) {
  Built built = build(c, variant);
  Op& op = *built.op;
  const IndexMap map = index_map(op);
  std::vector<Tensor> wholes;
  for (std::size_t i = 0; i < c.operands.size(); ++i)
    wholes.push_back(random_tensor(c.operands[i], variant, DType::F64, 17 + i));
  std::vector<Type> logical;
  for (const auto& result : op.results) logical.push_back(result->type.logical());
  const std::vector<Tensor> expected = evaluate(c.kind, c.attrs, wholes, logical);
  const std::vector<AxisChoice> options = choices(op, map);
  for (const AxisChoice& first : options) {
    for (const AxisChoice& second : options) {
      for (const bool swapped : {false, true}) {
        if (swapped && (first.loop == 0 || first.loop != second.loop)) continue;
        if (!assign(op, map, {first, second}, swapped)) continue;
        std::vector<Type> operand_types, result_types;
        for (const Value* operand : op.operands) operand_types.push_back(operand->type);
        for (const auto& result : op.results) result_types.push_back(result->type);
        std::vector<std::vector<Tensor>> pieces(op.results.size());
        for (int rank = 0; rank < kGrid.ranks(); ++rank) {
          const Coordinates at = kGrid.coordinates(rank);
          std::vector<Tensor> operands;
          for (std::size_t i = 0; i < wholes.size(); ++i) {
            operands.push_back(
                piece_of(addend_of(wholes[i], operand_types[i], at, 99 + i), operand_types[i], at));
          }
          const auto results =
              evaluate_local(c.kind, c.attrs, operands, operand_types, result_types, kGrid, at);
          for (std::size_t i = 0; i < results.size(); ++i) pieces[i].push_back(results[i]);
        }
        for (std::size_t i = 0; i < pieces.size(); ++i)
          check_result(pieces[i], result_types[i], expected[i], to_text(op, kGrid));
        if (testing::Test::HasFatalFailure()) return;
        ++checked;
      }
    }
  }
}

class ShardedOps : public testing::TestWithParam<int> {};

TEST_P(ShardedOps, ComputeWhatTheUncutOpComputes) {
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    run_case(c, GetParam(), checked);
    if (HasFatalFailure()) return;
  }
  RecordProperty("shardings", checked);
  EXPECT_GT(checked, 1000);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShardedOps, testing::Range(0, kVariants));

TEST(OpCases, CoverEveryKind) {
  std::set<OpKind> covered;
  for (const OpCase& c : op_cases()) covered.insert(c.kind);
  for (int k = 0; k < kOpCount; ++k) {
    const auto kind = static_cast<OpKind>(k);
    if (kind == OpKind::Constant || family(kind) == OpFamily::Collective) continue;
    EXPECT_TRUE(covered.contains(kind)) << mnemonic(kind) << " has no case";
  }
}

}  // namespace
}  // namespace tessera::test
