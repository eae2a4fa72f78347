// The only string helpers: str(a, b, ...) concatenates, join(range, sep) lists, split is its
// inverse.
#pragma once
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tessera {

// As a stream would print it; streams themselves are slow, and names are made by the million.
template <class T>
void append(std::string& text, const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    text += std::string_view(value);
  } else if constexpr (std::is_same_v<T, char>) {
    text += value;
  } else if constexpr (std::is_same_v<T, bool>) {
    text += value ? '1' : '0';
  } else if constexpr (std::is_integral_v<T> && sizeof(T) >= sizeof(short)) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text.append(digits, end);
  } else {
    std::ostringstream out;
    out << value;
    text += out.str();
  }
}

template <class... Args>
std::string str(const Args&... args) {
  std::string text;
  (append(text, args), ...);
  return text;
}

// "a, b, c" of any range whose elements stream; `show` maps an element to what is printed.
template <class Range, class Show>
std::string join(const Range& range, std::string_view separator, Show show) {
  std::string text;
  bool first = true;
  for (const auto& element : range) {
    if (!first) text += separator;
    first = false;
    append(text, show(element));
  }
  return text;
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
