// SHA-256 of bytes and of file ranges, as lower-case hex.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

std::string sha256(std::string_view bytes);
// Throws CompileError naming the file when it cannot be read that far.
std::string sha256_of_file(const std::filesystem::path& path, std::uint64_t offset,
                           std::uint64_t bytes);

}  // namespace tessera
