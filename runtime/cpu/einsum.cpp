// einsum by one GEMM per batch index. Loops are sorted into batch (both operands and the result),
// m, n and k; a group of loops that lies evenly in both places it occurs is one GEMM dimension,
// operands that do not lie so are copied first.
#include <algorithm>
#include <map>

#include "ir/base/index_map.h"
#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/kernel_list.h"
#include "runtime/cpu/permute.h"
#include "runtime/cpu/scratch.h"

namespace tessera::cpu {
namespace {

enum Slot { kReducedA = 0, kReducedB, kCopyA, kCopyB, kCopyC };

using Strides = std::map<char, std::int64_t>;

struct Operand {
  std::string term;
  Shape shape;
  void* data = nullptr;

  Strides strides() const {
    Strides result;
    const auto dense = row_major_strides(shape);
    for (std::size_t i = 0; i < term.size(); ++i) result[term[i]] = dense[i];
    return result;
  }
};

std::string loops_in(const std::string& order, const std::string& a, const std::string& b) {
  std::string both;
  for (char loop : order) {
    if (a.find(loop) != std::string::npos && b.find(loop) != std::string::npos) both += loop;
  }
  return both;
}

std::string minus(const std::string& order, const std::string& removed) {
  std::string kept;
  for (char loop : order) {
    if (removed.find(loop) == std::string::npos) kept += loop;
  }
  return kept;
}

// The stride of a group of loops as one dimension; -1 if its loops do not lie evenly. Loops of size
// 1 do not matter.
std::int64_t group_stride(const std::string& group, const Strides& strides,
                          const std::map<char, std::int64_t>& sizes) {
  std::int64_t stride = 0;
  std::int64_t next = 0;
  for (std::size_t i = group.size(); i-- > 0;) {
    const std::int64_t size = sizes.at(group[i]);
    if (size == 1) continue;
    const std::int64_t own = strides.at(group[i]);
    if (stride == 0) {
      stride = own;
    } else if (own != next) {
      return -1;
    }
    next = own * size;
  }
  return stride == 0 ? 1 : stride;
}

std::int64_t group_size(const std::string& group, const std::map<char, std::int64_t>& sizes) {
  std::int64_t size = 1;
  for (char loop : group) size *= sizes.at(loop);
  return size;
}

// A matrix operand fits when one of its two groups is dense and the other one steps over at least
// that much.
bool lies_as_matrix(std::int64_t rows, std::int64_t row_stride, std::int64_t cols,
                    std::int64_t col_stride) {
  if (row_stride < 0 || col_stride < 0) return false;
  return (col_stride == 1 && (rows <= 1 || row_stride >= cols)) ||
         (row_stride == 1 && (cols <= 1 || col_stride >= rows));
}

template <class T>
class Contraction {
 public:
  Contraction(Operand a, Operand b, Operand c)
      : a_(std::move(a)), b_(std::move(b)), c_(std::move(c)) {
    for (const Operand* operand : {&a_, &b_, &c_}) {
      for (std::size_t i = 0; i < operand->term.size(); ++i)
        sizes_[operand->term[i]] = operand->shape[i];
    }
    const std::string shared = loops_in(c_.term, a_.term, b_.term);
    batch_ = shared;
    m_ = minus(loops_in(c_.term, c_.term, a_.term), shared);
    n_ = minus(loops_in(c_.term, c_.term, b_.term), shared);
    k_ = minus(loops_in(a_.term, a_.term, b_.term), shared);
    const std::string other_order = minus(loops_in(b_.term, a_.term, b_.term), shared);
    if (group_stride(k_, a_.strides(), sizes_) < 0 || group_stride(k_, b_.strides(), sizes_) < 0) {
      if (group_stride(other_order, b_.strides(), sizes_) >= 0 &&
          group_stride(other_order, a_.strides(), sizes_) >= 0)
        k_ = other_order;
    }
  }

  void run() {
    if (std::ranges::find(c_.shape, 0) != c_.shape.end()) return;
    const Operand result = c_;
    if (!fits(a_, m_, k_)) make_dense(a_, batch_ + m_ + k_, kCopyA);
    if (!fits(b_, k_, n_)) make_dense(b_, batch_ + k_ + n_, kCopyB);
    const bool copies_result = !fits(c_, m_, n_);
    if (copies_result) {
      c_ = {batch_ + m_ + n_, shape_of(batch_ + m_ + n_), nullptr};
      c_.data = scratch<T>(kCopyC, elements(c_.shape));
    }
    multiply();
    if (copies_result) {
      const Strides strides = result.strides();
      std::vector<std::int64_t> in_order;
      for (char loop : c_.term) in_order.push_back(strides.at(loop));
      scatter_strided(c_.data, c_.shape, in_order, result.data, sizeof(T));
    }
  }

 private:
  Shape shape_of(const std::string& term) const {
    Shape shape;
    for (char loop : term) shape.push_back(sizes_.at(loop));
    return shape;
  }

  bool fits(const Operand& operand, const std::string& rows, const std::string& cols) const {
    const Strides strides = operand.strides();
    return lies_as_matrix(group_size(rows, sizes_), group_stride(rows, strides, sizes_),
                          group_size(cols, sizes_), group_stride(cols, strides, sizes_));
  }

  void make_dense(Operand& operand, const std::string& term, int slot) {
    const Strides strides = operand.strides();
    std::vector<std::int64_t> in_order;
    for (char loop : term) in_order.push_back(strides.at(loop));
    Operand dense{term, shape_of(term), nullptr};
    dense.data = scratch<T>(slot, elements(dense.shape));
    copy_strided(operand.data, dense.shape, in_order, dense.data, sizeof(T));
    operand = dense;
  }

  // (transposed, leading dimension) of a matrix with these group strides.
  std::pair<bool, std::int64_t> layout(const Operand& operand, const std::string& rows,
                                       const std::string& cols) const {
    const Strides strides = operand.strides();
    const std::int64_t row = group_stride(rows, strides, sizes_);
    const std::int64_t col = group_stride(cols, strides, sizes_);
    const std::int64_t row_count = group_size(rows, sizes_);
    const std::int64_t col_count = group_size(cols, sizes_);
    if (col == 1 && (row_count <= 1 || row >= col_count))
      return {false, std::max<std::int64_t>({row_count <= 1 ? col_count : row, col_count, 1})};
    return {true, std::max<std::int64_t>({col_count <= 1 ? row_count : col, row_count, 1})};
  }

  void multiply() const {
    GemmShape shape{group_size(m_, sizes_),
                    group_size(n_, sizes_),
                    group_size(k_, sizes_),
                    false,
                    false,
                    0,
                    0,
                    0};
    const auto [ta, lda] = layout(a_, m_, k_);
    const auto [tb, ldb] = layout(b_, k_, n_);
    const auto [tc, ldc] = layout(c_, m_, n_);
    shape.transpose_a = ta, shape.lda = lda;
    shape.transpose_b = tb, shape.ldb = ldb;
    shape.ldc = ldc;
    if (tc) {  // the result lies as [n,m]: C^T = B^T A^T
      shape = {shape.n, shape.m, shape.k, !tb, !ta, ldb, lda, ldc};
    }
    const Strides sa = a_.strides(), sb = b_.strides(), sc = c_.strides();
    std::vector<std::int64_t> at(batch_.size(), 0);
    const std::int64_t count = group_size(batch_, sizes_);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t oa = 0, ob = 0, oc = 0;
      for (std::size_t d = 0; d < batch_.size(); ++d) {
        oa += at[d] * sa.at(batch_[d]);
        ob += at[d] * sb.at(batch_[d]);
        oc += at[d] * sc.at(batch_[d]);
      }
      const T* a = static_cast<const T*>(a_.data) + oa;
      const T* b = static_cast<const T*>(b_.data) + ob;
      gemm(shape, T{1}, tc ? b : a, tc ? a : b, T{0}, static_cast<T*>(c_.data) + oc);
      for (std::size_t d = batch_.size(); d-- > 0;) {
        if (++at[d] < sizes_.at(batch_[d])) break;
        at[d] = 0;
      }
    }
  }

  Operand a_, b_, c_;
  std::map<char, std::int64_t> sizes_;
  std::string batch_, m_, n_, k_;
};

// Sums the loops of an operand that occur nowhere else.
template <class T>
Operand summed(const Operand& operand, const std::string& kept, int slot) {
  std::string keep, gone;
  for (char loop : operand.term) (kept.find(loop) != std::string::npos ? keep : gone) += loop;
  if (gone.empty()) return operand;
  const Strides strides = operand.strides();
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < operand.term.size(); ++i) sizes[operand.term[i]] = operand.shape[i];
  Operand result{keep, {}, nullptr};
  std::vector<std::int64_t> in_order;
  Shape shape;
  for (char loop : keep + gone) {
    in_order.push_back(strides.at(loop));
    shape.push_back(sizes.at(loop));
  }
  for (char loop : keep) result.shape.push_back(sizes.at(loop));
  T* dense = scratch<T>(slot == kReducedA ? kCopyA : kCopyB, elements(shape));
  copy_strided(operand.data, shape, in_order, dense, sizeof(T));
  const std::int64_t rows = elements(result.shape);
  const std::int64_t cols = group_size(gone, sizes);
  T* sums = scratch<T>(slot, rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::conditional_t<std::is_floating_point_v<T>, double, T> sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += dense[r * cols + c];
    sums[r] = static_cast<T>(sum);
  }
  result.data = sums;
  return result;
}

template <class T>
void run_einsum(const KernelCall& call, const IndexMap& map) {
  const Operand result{map.results[0], call.results[0].shape, call.results[0].data};
  const std::string second = map.operands.size() > 1 ? map.operands[1] : "";
  const Operand a = summed<T>({map.operands[0], call.operands[0].shape, call.operands[0].data},
                              map.results[0] + second, kReducedA);
  if (map.operands.size() == 1) {
    const Strides strides = a.strides();
    std::vector<std::int64_t> in_order;
    for (char loop : result.term) in_order.push_back(strides.at(loop));
    copy_strided(a.data, result.shape, in_order, result.data, sizeof(T));
    return;
  }
  const Operand b = summed<T>({second, call.operands[1].shape, call.operands[1].data},
                              map.results[0] + a.term, kReducedB);
  Contraction<T>(a, b, result).run();
}

}  // namespace

void einsum_kernel(const KernelCall& call) {
  const DType dtype = call.results[0].dtype;
  if (call.attrs->has("acc") && call.attrs->dtype("acc") != dtype) {
    throw CompileError("", str("einsum: the CPU accumulates ", name(dtype), " in ", name(dtype),
                               ", not in ", name(call.attrs->dtype("acc"))));
  }
  const IndexMap map = parse_index_map(call.attrs->text("spec"), "einsum");
  with_number(call.results[0].dtype, call.kind,
              [&](auto zero) { run_einsum<decltype(zero)>(call, map); });
}

}  // namespace tessera::cpu
