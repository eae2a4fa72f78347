#include "ir/base/sha256.h"

#include <openssl/evp.h>

#include <fstream>
#include <memory>
#include <vector>

#include "ir/base/check.h"
#include "ir/base/diag.h"

namespace tessera {
namespace {

class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    TESSERA_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
                  "SHA-256 is not available");
  }
  void add(const char* data, std::size_t size) {
    TESSERA_CHECK(EVP_DigestUpdate(context_.get(), data, size) == 1, "SHA-256 failed");
  }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    TESSERA_CHECK(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1, "SHA-256 failed");
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      text += kHex[digest[i] >> 4];
      text += kHex[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256(std::string_view bytes) {
  Hash hash;
  hash.add(bytes.data(), bytes.size());
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& path, std::uint64_t offset,
                           std::uint64_t bytes) {
  std::ifstream in(path, std::ios::binary);
  if (!in.seekg(static_cast<std::streamoff>(offset)))
    throw CompileError(path.string(), "cannot read the file");
  Hash hash;
  std::vector<char> buffer(1 << 20);
  while (bytes > 0) {
    const auto want = static_cast<std::streamsize>(std::min<std::uint64_t>(bytes, buffer.size()));
    if (!in.read(buffer.data(), want))
      throw CompileError(path.string(), "the file is shorter than expected");
    hash.add(buffer.data(), static_cast<std::size_t>(want));
    bytes -= static_cast<std::uint64_t>(want);
  }
  return hash.hex();
}

}  // namespace tessera
