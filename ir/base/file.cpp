#include "ir/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path, error))
    throw CompileError(path.string(), "cannot read the file");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void sync_to_disk(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void write_atomically(const std::filesystem::path& path,
                      const std::function<void(std::ostream&)>& write) {
  const std::filesystem::path temporary = path.string() + str(".tmp", ::getpid());
  {
    std::ofstream out(temporary, std::ios::binary);
    if (!out)
      throw CompileError(path.string(), "cannot write here", {str("tried ", temporary.string())});
    write(out);
    out.flush();
    if (!out) {
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      throw CompileError(path.string(), "cannot be written completely", {"is the disk full?"});
    }
  }
  sync_to_disk(temporary);
  std::filesystem::rename(temporary, path);
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

MappedFile::MappedFile(const std::filesystem::path& path, const std::string& note) {
  std::vector<std::string> notes;
  if (!note.empty()) notes.push_back(note);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string why = std::strerror(errno);
    throw CompileError(path.string(), str("cannot open the file: ", why), notes);
  }
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (regular && info.st_size > 0) {
    size_ = static_cast<std::size_t>(info.st_size);
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    data_ = mapped == MAP_FAILED ? nullptr : static_cast<const std::byte*>(mapped);
  }
  ::close(fd);
  if (!regular || data_ == nullptr)
    throw CompileError(path.string(), "is not a readable regular file, or is empty", notes);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tessera
