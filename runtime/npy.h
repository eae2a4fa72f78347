// NumPy .npy files (format 1 and 2, C order). Headers are not trusted.
#pragma once
#include <filesystem>

#include "ir/base/tensor.h"

namespace tessera {

Tensor read_npy(const std::filesystem::path& path);
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace tessera
