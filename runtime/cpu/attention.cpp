// Attention over grouped heads in the layout [batch, sequence, group, query head, head_dim]. Heads
// are strided matrices in place; scores exist for one block of query rows of one head at a time.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/kernel_list.h"
#include "runtime/cpu/rows.h"
#include "runtime/cpu/scratch.h"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kRowBlock = 128;
enum Slot { kScores = 0, kGradient, kDots };

struct Sizes {
  std::int64_t b, s, g, r, t, d, e;
};

// One head's matrices: rows step over all heads.
struct Head {
  std::int64_t b = 0, g = 0, r = 0;
};

// What stands between scale q k and softmax: the causal triangle and a bool mask put `hidden`, a
// float mask is added.
template <class T>
class Mask {
 public:
  Mask(const KernelCall& call, std::size_t operand, std::int64_t queries, std::int64_t keys)
      : causal_(call.attrs->flag("causal")), keys_(keys), shift_(keys - queries) {
    if (call.attrs->has("hidden")) hidden_ = static_cast<T>(call.attrs->number("hidden"));
    if (!call.attrs->has("mask")) return;
    arg_ = &call.operands[operand];
    const std::string& loops = call.attrs->text("mask");
    const auto dense = row_major_strides(arg_->shape);
    for (std::size_t i = 0; i < loops.size(); ++i) {
      const std::size_t at = std::string_view("bSgrT").find(loops[i]);
      strides_[at] = dense[i];
    }
  }

  void apply(T* row, const Head& head, std::int64_t s) const {
    hide(row, head, s, hidden_);
    if (arg_ == nullptr || arg_->dtype == DType::Bool) return;
    const T* added = arg_->as<T>() + base(head, s);
    for (std::int64_t t = 0; t < keys_; ++t) row[t] += added[t * strides_[4]];
  }

  // No gradient goes to a score that was replaced. With -inf its weight is 0 already.
  void clear_hidden(T* row, const Head& head, std::int64_t s) const {
    if (hidden_ != -std::numeric_limits<T>::infinity()) hide(row, head, s, T(0));
  }

 private:
  std::int64_t base(const Head& head, std::int64_t s) const {
    return head.b * strides_[0] + s * strides_[1] + head.g * strides_[2] + head.r * strides_[3];
  }

  void hide(T* row, const Head& head, std::int64_t s, T value) const {
    if (arg_ != nullptr && arg_->dtype == DType::Bool) {
      const std::uint8_t* keep = arg_->as<std::uint8_t>() + base(head, s);
      for (std::int64_t t = 0; t < keys_; ++t) row[t] = keep[t * strides_[4]] != 0 ? row[t] : value;
    }
    if (causal_)
      std::fill(row + std::clamp<std::int64_t>(s + shift_ + 1, 0, keys_), row + keys_, value);
  }

  bool causal_;
  std::int64_t keys_, shift_;
  T hidden_ = -std::numeric_limits<T>::infinity();
  const TensorArg* arg_ = nullptr;
  std::array<std::int64_t, 5> strides_{};  // of b, S, g, r, T
};

template <class T>
struct Views {
  Sizes n;
  const T *q, *k, *v;

  const T* q_row(const Head& h, std::int64_t s) const {
    return q + (((h.b * n.s + s) * n.g + h.g) * n.r + h.r) * n.d;
  }
  const T* k_row(const Head& h) const { return k + (h.b * n.t * n.g + h.g) * n.d; }
  const T* v_row(const Head& h) const { return v + (h.b * n.t * n.g + h.g) * n.e; }
  std::int64_t q_step() const { return std::max<std::int64_t>(1, n.g * n.r * n.d); }
  std::int64_t k_step() const { return std::max<std::int64_t>(1, n.g * n.d); }
  std::int64_t v_step() const { return std::max<std::int64_t>(1, n.g * n.e); }
  std::int64_t o_step() const { return std::max<std::int64_t>(1, n.g * n.r * n.e); }
  std::int64_t o_at(const Head& h, std::int64_t s) const {
    return (((h.b * n.s + s) * n.g + h.g) * n.r + h.r) * n.e;
  }
  std::int64_t lse_at(const Head& h, std::int64_t s) const {
    return ((h.b * n.s + s) * n.g + h.g) * n.r + h.r;
  }
};

template <class T>
Views<T> views_of(const TensorArg& q, const TensorArg& k, const TensorArg& v) {
  return {{q.shape[0], q.shape[1], q.shape[2], q.shape[3], k.shape[1], q.shape[4], v.shape[3]},
          q.as<T>(),
          k.as<T>(),
          v.as<T>()};
}

// scores[rows, T] = scale Q K^T, masked.
template <class T>
void scores_block(const Views<T>& view, const KernelCall& call, const Mask<T>& mask,
                  const Head& head, std::int64_t s0, std::int64_t rows, T* scores) {
  const Sizes& n = view.n;
  gemm({rows, n.t, n.d, false, true, view.q_step(), view.k_step(), std::max<std::int64_t>(1, n.t)},
       static_cast<T>(call.attrs->number("scale")), view.q_row(head, s0), view.k_row(head), T(0),
       scores);
  for (std::int64_t i = 0; i < rows; ++i) mask.apply(scores + i * n.t, head, s0 + i);
}

template <class F>
void each_block(const Sizes& n, F run) {
  for (std::int64_t b = 0; b < n.b; ++b) {
    for (std::int64_t g = 0; g < n.g; ++g) {
      for (std::int64_t r = 0; r < n.r; ++r) {
        for (std::int64_t s = 0; s < n.s; s += kRowBlock)
          run(Head{b, g, r}, s, std::min(kRowBlock, n.s - s));
      }
    }
  }
}

template <class T>
void attention(const KernelCall& call) {
  const auto view = views_of<T>(call.operands[0], call.operands[1], call.operands[2]);
  const Sizes& n = view.n;
  const Mask<T> mask(call, 3, n.s, n.t);
  const bool empty_rows_zero = call.attrs->flag("empty_rows_zero");
  T* out = call.results[0].as<T>();
  T* lse = call.results[1].as<T>();
  T* scores = scratch<T>(kScores, kRowBlock * n.t);
  each_block(n, [&](const Head& head, std::int64_t s0, std::int64_t rows) {
    scores_block(view, call, mask, head, s0, rows, scores);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = scores + i * n.t;
      const T sum = softmax_row(row, row, n.t);
      lse[view.lse_at(head, s0 + i)] = sum;
      if (empty_rows_zero && sum == -std::numeric_limits<T>::infinity())
        std::fill(row, row + n.t, T(0));
    }
    gemm({rows, n.e, n.t, false, false, std::max<std::int64_t>(1, n.t), view.v_step(),
          view.o_step()},
         T(1), scores, view.v_row(head), T(0), out + view.o_at(head, s0));
  });
}

// exp(score - lse) in place. A large lse has no digits left for the sum that it holds (a row that a
// finite mask hides completely): the weights come from the scores alone then.
template <class T>
void weights_of_row(T* row, std::int64_t n, T lse, bool empty) {
  constexpr T kPrecise = 64;
  if (empty) {
    std::fill(row, row + n, T(0));
  } else if (std::abs(lse) > kPrecise) {
    softmax_row(row, row, n);
  } else {
#pragma GCC ivdep
    for (std::int64_t t = 0; t < n; ++t) row[t] = fast_exp(row[t] - lse);
  }
}

// (dout, q, k, v, out, lse [, mask]) -> dq, dk, dv. Probabilities come again from scores and lse:
// dV = P^T dO;  dS = P (dO V^T - rowsum(dO O)) scale;  dQ = dS K;  dK = dS^T Q. dK and dV add up
// over query heads.
template <class T>
void attention_grad(const KernelCall& call) {
  const auto view = views_of<T>(call.operands[1], call.operands[2], call.operands[3]);
  const Sizes& n = view.n;
  const Mask<T> mask(call, 6, n.s, n.t);
  const T scale = static_cast<T>(call.attrs->number("scale"));
  const T* dout = call.operands[0].as<T>();
  const T* out = call.operands[4].as<T>();
  const T* lse = call.operands[5].as<T>();
  T* dq = call.results[0].as<T>();
  T* dk = call.results[1].as<T>();
  T* dv = call.results[2].as<T>();
  std::fill(dq, dq + call.results[0].size(), T(0));
  std::fill(dk, dk + call.results[1].size(), T(0));
  std::fill(dv, dv + call.results[2].size(), T(0));
  T* p = scratch<T>(kScores, kRowBlock * n.t);
  T* ds = scratch<T>(kGradient, kRowBlock * n.t);
  const std::int64_t ld = std::max<std::int64_t>(1, n.t);
  each_block(n, [&](const Head& head, std::int64_t s0, std::int64_t rows) {
    scores_block(view, call, mask, head, s0, rows, p);
    const T* block = dout + view.o_at(head, s0);
    gemm({rows, n.t, n.e, false, true, view.o_step(), view.v_step(), ld}, T(1), block,
         view.v_row(head), T(0), ds);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T row_lse = lse[view.lse_at(head, s0 + i)];
      const T* o = out + view.o_at(head, s0 + i);
      const T* d = dout + view.o_at(head, s0 + i);
      const T dot = static_cast<T>(row_sum<T>(n.e, [&](std::int64_t e) { return o[e] * d[e]; }));
      const bool empty =
          row_lse == -std::numeric_limits<T>::infinity() && call.attrs->flag("empty_rows_zero");
      T* row = p + i * n.t;
      weights_of_row(row, n.t, row_lse, empty);
      for (std::int64_t t = 0; t < n.t; ++t)
        ds[i * n.t + t] = row[t] * (ds[i * n.t + t] - dot) * scale;
      mask.clear_hidden(ds + i * n.t, head, s0 + i);
    }
    const std::int64_t kv = head.b * n.t * n.g + head.g;
    gemm({n.t, n.e, rows, true, false, ld, view.o_step(), view.v_step()}, T(1), p, block, T(1),
         dv + kv * n.e);
    gemm({rows, n.d, n.t, false, false, ld, view.k_step(), view.q_step()}, T(1), ds,
         view.k_row(head), T(0), dq + (view.q_row(head, s0) - view.q));
    gemm({n.t, n.d, rows, true, false, ld, view.q_step(), view.k_step()}, T(1), ds,
         view.q_row(head, s0), T(1), dk + kv * n.d);
  });
}

}  // namespace

void attention_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { attention<decltype(zero)>(call); });
}
void attention_grad_kernel(const KernelCall& call) {
  with_float(call.operands[0].dtype, call.kind,
             [&](auto zero) { attention_grad<decltype(zero)>(call); });
}

}  // namespace tessera::cpu
