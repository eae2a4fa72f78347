// C[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta C, row-major with leading dimensions. f32 by oneDNN,
// the other types by own loops that add in k order, so that their results do not depend on how m or
// n are cut.
#pragma once
#include <cstdint>

namespace tessera::cpu {

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
};

void gemm(const GemmShape& shape, float alpha, const float* a, const float* b, float beta,
          float* c);
void gemm(const GemmShape& shape, double alpha, const double* a, const double* b, double beta,
          double* c);
void gemm(const GemmShape& shape, std::int64_t alpha, const std::int64_t* a, const std::int64_t* b,
          std::int64_t beta, std::int64_t* c);
void gemm(const GemmShape& shape, std::int32_t alpha, const std::int32_t* a, const std::int32_t* b,
          std::int32_t beta, std::int32_t* c);

}  // namespace tessera::cpu
