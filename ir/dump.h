// Modules as files: text, with large constants in constants.safetensors beside it.
#pragma once
#include <filesystem>

#include "ir/graph.h"

namespace tessera {

void write_module(const Module& module, const std::filesystem::path& path);
Module read_module(const std::filesystem::path& path);

}  // namespace tessera
