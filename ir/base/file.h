// Whole files: read as text, written so that nothing half-written is ever seen under the final
// name.
#pragma once
#include <cstddef>
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

// A regular file's bytes, read-only and only read where touched. Throws CompileError naming the
// file, with `note` as the way out.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, const std::string& note = "");
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tessera
