// The only string formatting helpers: str(a, b, ...) concatenates, join(range, sep) lists.
#pragma once
#include <sstream>
#include <string>
#include <string_view>

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

}  // namespace tessera
