#include "ir/base/text.h"

namespace tessera {

std::string in_quotes(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += str('\\', c);
    } else if (byte < 0x20 || byte == 0x7f) {
      result += str("\\x", kHex[byte >> 4], kHex[byte & 15]);
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace tessera
