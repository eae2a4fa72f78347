// Whole files: read as text, written so that nothing half-written is ever seen under the final
// name.
#pragma once
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

namespace tessera {

// Throws CompileError naming the file.
std::string read_text(const std::filesystem::path& path);
// Writes a temporary file beside `path`, syncs it, then renames it to `path`. Throws CompileError
// naming the file.
void write_atomically(const std::filesystem::path& path,
                      const std::function<void(std::ostream&)>& write);
void write_text(const std::filesystem::path& path, const std::string& text);
// Flushes a file or folder to the disk.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace tessera
