#include "ir/base/file.h"

#include <fcntl.h>
#include <unistd.h>

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

}  // namespace tessera
