// Attention over grouped heads in the layout [batch, sequence, group, query head, head_dim]. Heads
// are strided matrices in place; scores exist for one block of query rows of one head at a time.
#include <algorithm>
#include <cmath>
#include <limits>

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

template <class T>
class Mask {
 public:
  Mask(const KernelCall& call, std::size_t operand) {
    if (!call.attrs->has("mask")) return;
    arg_ = &call.operands[operand];
    const std::string& loops = call.attrs->text("mask");
    const auto dense = row_major_strides(arg_->shape);
    for (std::size_t i = 0; i < loops.size(); ++i) {
      switch (loops[i]) {
        case 'b':
          sb_ = dense[i];
          break;
        case 'S':
          ss_ = dense[i];
          break;
        case 'g':
          sg_ = dense[i];
          break;
        case 'r':
          sr_ = dense[i];
          break;
        default:
          st_ = dense[i];
          break;
      }
    }
  }

  void apply(T* row, const Head& head, std::int64_t s, std::int64_t count) const {
    if (arg_ == nullptr) return;
    const std::int64_t base = head.b * sb_ + s * ss_ + head.g * sg_ + head.r * sr_;
    if (arg_->dtype == DType::Bool) {
      const std::uint8_t* keep = arg_->as<std::uint8_t>() + base;
      for (std::int64_t t = 0; t < count; ++t)
        row[t] = keep[t * st_] != 0 ? row[t] : -std::numeric_limits<T>::infinity();
    } else {
      const T* added = arg_->as<T>() + base;
      for (std::int64_t t = 0; t < count; ++t) row[t] += added[t * st_];
    }
  }

 private:
  const TensorArg* arg_ = nullptr;
  std::int64_t sb_ = 0, ss_ = 0, sg_ = 0, sr_ = 0, st_ = 0;
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

// scores[rows, T] = scale Q K^T with masks applied; what causality hides is -inf.
template <class T>
void scores_block(const Views<T>& view, const KernelCall& call, const Mask<T>& mask,
                  const Head& head, std::int64_t s0, std::int64_t rows, T* scores) {
  const Sizes& n = view.n;
  gemm({rows, n.t, n.d, false, true, view.q_step(), view.k_step(), std::max<std::int64_t>(1, n.t)},
       static_cast<T>(call.attrs->number("scale")), view.q_row(head, s0), view.k_row(head), T(0),
       scores);
  const bool causal = call.attrs->flag("causal");
  for (std::int64_t i = 0; i < rows; ++i) {
    T* row = scores + i * n.t;
    mask.apply(row, head, s0 + i, n.t);
    if (!causal) continue;
    const std::int64_t visible = std::clamp<std::int64_t>(s0 + i + n.t - n.s + 1, 0, n.t);
    std::fill(row + visible, row + n.t, -std::numeric_limits<T>::infinity());
  }
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
  const Mask<T> mask(call, 3);
  const bool empty_rows_zero = call.attrs->flag("empty_rows_zero");
  T* out = call.results[0].as<T>();
  T* lse = call.results[1].as<T>();
  T* scores = scratch<T>(kScores, kRowBlock * n.t);
  each_block(n, [&](const Head& head, std::int64_t s0, std::int64_t rows) {
    scores_block(view, call, mask, head, s0, rows, scores);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = scores + i * n.t;
      lse[view.lse_at(head, s0 + i)] = log_sum_exp(row, n.t);
      if (empty_rows_zero && row_max(row, n.t) == -std::numeric_limits<T>::infinity()) {
        std::fill(row, row + n.t, T(0));
      } else {
        softmax_row(row, row, n.t);
      }
    }
    gemm({rows, n.e, n.t, false, false, std::max<std::int64_t>(1, n.t), view.v_step(),
          view.o_step()},
         T(1), scores, view.v_row(head), T(0), out + view.o_at(head, s0));
  });
}

// (dout, q, k, v, out, lse [, mask]) -> dq, dk, dv. Probabilities come again from scores and lse:
// dV = P^T dO;  dS = P (dO V^T - rowsum(dO O)) scale;  dQ = dS K;  dK = dS^T Q. dK and dV add up
// over query heads.
template <class T>
void attention_grad(const KernelCall& call) {
  const auto view = views_of<T>(call.operands[1], call.operands[2], call.operands[3]);
  const Sizes& n = view.n;
  const Mask<T> mask(call, 6);
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
      for (std::int64_t t = 0; t < n.t; ++t) {
        const T probability = empty ? T(0) : fast_exp(p[i * n.t + t] - row_lse);
        p[i * n.t + t] = probability;
        ds[i * n.t + t] = probability * (ds[i * n.t + t] - dot) * scale;
      }
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
