#include "runtime/cpu/gemm.h"

#include <dnnl.h>

#include <algorithm>

#include "ir/base/check.h"

namespace tessera::cpu {
namespace {

template <class T>
void scale_rows(const GemmShape& s, T beta, T* c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    T* row = c + i * s.ldc;
    if (beta == T{0}) {
      std::fill(row, row + s.n, T{0});
    } else if (beta != T{1}) {
      for (std::int64_t j = 0; j < s.n; ++j) row[j] *= beta;
    }
  }
}

// Rows of C in turn; B's rows stream when it is not transposed, else dot products.
template <class T>
void plain_gemm(const GemmShape& s, T alpha, const T* a, const T* b, T beta, T* c) {
  scale_rows(s, beta, c);
  for (std::int64_t i = 0; i < s.m; ++i) {
    T* row = c + i * s.ldc;
    if (s.transpose_b) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        T sum{0};
        for (std::int64_t p = 0; p < s.k; ++p)
          sum += (s.transpose_a ? a[p * s.lda + i] : a[i * s.lda + p]) * b[j * s.ldb + p];
        row[j] += alpha * sum;
      }
      continue;
    }
    for (std::int64_t p = 0; p < s.k; ++p) {
      const T factor = alpha * (s.transpose_a ? a[p * s.lda + i] : a[i * s.lda + p]);
      const T* other = b + p * s.ldb;
      for (std::int64_t j = 0; j < s.n; ++j) row[j] += factor * other[j];
    }
  }
}

}  // namespace

void gemm(const GemmShape& s, float alpha, const float* a, const float* b, float beta, float* c) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return scale_rows(s, beta, c);
  const dnnl_status_t status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m,
                                          s.n, s.k, alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
  TESSERA_CHECK(status == dnnl_success, "dnnl_sgemm refused m ", s.m, " n ", s.n, " k ", s.k,
                " lda ", s.lda, " ldb ", s.ldb, " ldc ", s.ldc);
}

void gemm(const GemmShape& s, double alpha, const double* a, const double* b, double beta,
          double* c) {
  plain_gemm(s, alpha, a, b, beta, c);
}
void gemm(const GemmShape& s, std::int64_t alpha, const std::int64_t* a, const std::int64_t* b,
          std::int64_t beta, std::int64_t* c) {
  plain_gemm(s, alpha, a, b, beta, c);
}
void gemm(const GemmShape& s, std::int32_t alpha, const std::int32_t* a, const std::int32_t* b,
          std::int32_t beta, std::int32_t* c) {
  plain_gemm(s, alpha, a, b, beta, c);
}

}  // namespace tessera::cpu
