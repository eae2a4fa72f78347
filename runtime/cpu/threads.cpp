#include "runtime/cpu/threads.h"

extern "C" void omp_set_num_threads(int count);

namespace tessera::cpu {

void use_one_math_thread() { omp_set_num_threads(1); }

const char* missing_instructions() {
#if defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2"))
    return "AVX2 (build with -DTESSERA_CPU_ISA=x86-64 for this processor)";
#endif
  return "";
}

}  // namespace tessera::cpu
