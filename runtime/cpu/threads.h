// Ranks are threads: each calls the math library with one thread of its own.
#pragma once

namespace tessera::cpu {

// Once per thread that runs kernels.
void use_one_math_thread();

// Empty if this processor can run the kernels of this build; else what it lacks.
const char* missing_instructions();

}  // namespace tessera::cpu
