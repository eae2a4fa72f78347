// Elements of small tensors as text and back: (1,-2,3). Declared in ir/base/lexer.h.
#include <charconv>

#include "ir/base/diag.h"
#include "ir/base/lexer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

std::string float_text(float value) {  // shortest text that reads back as the same float
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, result.ptr);
  if (text == "-nan") text = "nan";
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string element_text(const Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if (tensor.dtype() == DType::F32) return float_text(tensor.view<float>()[at]);
  if (is_float(tensor.dtype())) return number_text(tensor.number(i));
  if (tensor.dtype() == DType::I64) return str(tensor.view<std::int64_t>()[at]);
  return str(static_cast<std::int64_t>(tensor.number(i)));
}

void store_element(Lexer& lexer, Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  const auto whole = [&] { return lexer.integer("a constant"); };
  const auto real = [&] { return lexer.number("a constant"); };
  switch (tensor.dtype()) {
    case DType::F32:
      tensor.mutable_view<float>()[at] = static_cast<float>(real());
      return;
    case DType::F64:
      tensor.mutable_view<double>()[at] = real();
      return;
    case DType::F16:
      tensor.mutable_view<std::uint16_t>()[at] = float_to_half(static_cast<float>(real()));
      return;
    case DType::BF16:
      tensor.mutable_view<std::uint16_t>()[at] = float_to_bfloat(static_cast<float>(real()));
      return;
    case DType::I64:
      tensor.mutable_view<std::int64_t>()[at] = whole();
      return;
    case DType::I32:
      tensor.mutable_view<std::int32_t>()[at] = static_cast<std::int32_t>(whole());
      return;
    case DType::I16:
      tensor.mutable_view<std::int16_t>()[at] = static_cast<std::int16_t>(whole());
      return;
    case DType::I8:
    case DType::U8:
    case DType::Bool:
      tensor.mutable_view<std::uint8_t>()[at] = static_cast<std::uint8_t>(whole());
      return;
  }
}

}  // namespace

std::string elements_text(const Tensor& tensor) {
  std::string text = "(";
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    text += str(i == 0 ? "" : ",", element_text(tensor, i));
  }
  return text + ")";
}

Tensor parse_elements(Lexer& lexer, const Type& type) {
  constexpr std::int64_t kMaxInline = 1 << 26;
  const std::int64_t count = elements(type.shape);
  if (count > kMaxInline) lexer.fail(str("a constant of ", count, " elements cannot be inline"));
  Tensor tensor(type.dtype, type.shape);
  lexer.expect("(");
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) lexer.expect(",");
    store_element(lexer, tensor, i);
  }
  lexer.expect(")");
  return tensor;
}

}  // namespace tessera
