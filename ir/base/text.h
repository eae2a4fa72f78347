// The only string helpers: str(a, b, ...) concatenates, join(range, sep) lists, split is its
// inverse.
#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// "a, b, c" of any range whose elements stream; `show` maps an element to what is printed.
template <class Range, class Show>
std::string join(const Range& range, std::string_view separator, Show show) {
  std::ostringstream out;
  bool first = true;
  for (const auto& element : range) {
    if (!first) out << separator;
    first = false;
    out << show(element);
  }
  return out.str();
}

template <class Range>
std::string join(const Range& range, std::string_view separator) {
  return join(
      range, separator, [](const auto& element) -> const auto& { return element; });
}

// "a,b" -> {"a", "b"}; always at least one part.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// "text" with \" \\ and \xHH escapes: always one line. Not called `quoted`: for strings that name
// finds std::quoted first, which leaves line breaks as they are.
std::string in_quotes(std::string_view text);

}  // namespace tessera
