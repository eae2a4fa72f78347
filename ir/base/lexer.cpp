#include "ir/base/lexer.h"

#include <cctype>
#include <charconv>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::End:
      return "the end of the text";
    case TokenKind::ValueName:
      return str("'%", token.text, "'");
    case TokenKind::FuncName:
      return str("'@", token.text, "'");
    case TokenKind::Text:
      return in_quotes(token.text);
    case TokenKind::Word:
    case TokenKind::Number:
    case TokenKind::Punct:
      break;
  }
  return str("'", token.text, "'");
}

}  // namespace

Lexer::Lexer(std::string text, std::string file) : text_(std::move(text)), file_(std::move(file)) {
  advance();
}

std::string Lexer::where(const Token& token) const {
  return str(file_, ":", token.line, ":", token.column);
}
std::string Lexer::where() const { return where(token_); }

void Lexer::fail(const std::string& message, std::vector<std::string> notes) const {
  throw CompileError(where(), message, std::move(notes));
}

Token Lexer::next() {
  Token token = token_;
  advance();
  return token;
}

bool Lexer::is(std::string_view text) const {
  return (token_.kind == TokenKind::Punct || token_.kind == TokenKind::Word) && token_.text == text;
}

bool Lexer::accept(std::string_view text) {
  if (!is(text)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view text) {
  if (!accept(text)) fail(str("expected '", text, "', found ", described(token_)));
}

std::string Lexer::word(std::string_view what) {
  if (token_.kind != TokenKind::Word) fail(str("expected ", what, ", found ", described(token_)));
  return next().text;
}

std::string Lexer::value_name() {
  if (token_.kind != TokenKind::ValueName)
    fail(str("expected a %value, found ", described(token_)));
  return next().text;
}

std::string Lexer::func_name() {
  if (token_.kind != TokenKind::FuncName)
    fail(str("expected a @function, found ", described(token_)));
  return next().text;
}

std::string Lexer::quoted_text(std::string_view what) {
  if (token_.kind != TokenKind::Text)
    fail(str("expected ", what, " in quotes, found ", described(token_)));
  return next().text;
}

std::int64_t Lexer::integer(std::string_view what) {
  std::int64_t value = 0;
  const char* end = token_.text.data() + token_.text.size();
  const auto result = std::from_chars(token_.text.data(), end, value);
  if (token_.kind != TokenKind::Number || result.ec != std::errc() || result.ptr != end) {
    fail(str("expected ", what, ", a 64-bit whole number, found ", described(token_)));
  }
  advance();
  return value;
}

double Lexer::number(std::string_view what) {
  double value = 0;
  const char* end = token_.text.data() + token_.text.size();
  const auto result = std::from_chars(token_.text.data(), end, value);
  if (token_.kind != TokenKind::Number || result.ptr != end ||
      (result.ec != std::errc() && result.ec != std::errc::result_out_of_range)) {
    fail(str("expected ", what, ", a number, found ", described(token_)));
  }
  advance();
  return value;
}

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    } else if (c == '#' || (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      continue;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
    ++at_;
  }
}

std::string Lexer::take_name() {
  const std::size_t start = at_;
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

bool Lexer::at_number() const {
  std::size_t at = at_;
  if (text_[at] == '-') ++at;
  if (at >= text_.size()) return false;
  if (is_digit(text_[at])) return true;
  const std::string_view rest = std::string_view(text_).substr(at, 3);
  const bool word_ends = at + 3 >= text_.size() || !is_name_char(text_[at + 3]);
  return word_ends && (rest == "inf" || rest == "nan");
}

void Lexer::lex_number() {
  const std::size_t start = at_;
  if (text_[at_] == '-') ++at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const bool sign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
    if (!is_name_char(c) && !sign) break;
    ++at_;
  }
  token_.kind = TokenKind::Number;
  token_.text = text_.substr(start, at_ - start);
}

void Lexer::lex_text() {
  token_.kind = TokenKind::Text;
  ++at_;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
    if (text_[at_] != '\\') {
      token_.text += text_[at_++];
      continue;
    }
    const char escaped = at_ + 1 < text_.size() ? text_[at_ + 1] : '\n';
    if (escaped == '"' || escaped == '\\') {
      token_.text += escaped;
      at_ += 2;
      continue;
    }
    int code = 0;
    const char* digits = text_.data() + at_ + 2;
    if (escaped != 'x' || at_ + 3 >= text_.size() ||
        std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2) {
      fail("bad escape in a quoted text", {"known escapes: \\\" \\\\ \\xHH"});
    }
    token_.text += static_cast<char>(code);
    at_ += 4;
  }
  if (at_ >= text_.size() || text_[at_] != '"') fail("a quoted text does not end on its line");
  ++at_;
}

void Lexer::advance() {
  skip_blanks();
  token_ = Token{TokenKind::End, "", line_, static_cast<int>(at_ - line_start_) + 1};
  if (at_ >= text_.size()) return;
  const char c = text_[at_];
  const bool names = at_ + 1 < text_.size() && is_name_char(text_[at_ + 1]);
  if (c == '%' || (c == '@' && names)) {
    ++at_;
    token_.kind = c == '%' ? TokenKind::ValueName : TokenKind::FuncName;
    token_.text = take_name();
    if (token_.text.empty()) fail(str("a name must follow '", c, "'"));
  } else if (c == '"') {
    lex_text();
  } else if (c == '-' && at_ + 1 < text_.size() && text_[at_ + 1] == '>') {
    at_ += 2;
    token_.kind = TokenKind::Punct;
    token_.text = "->";
  } else if (at_number()) {
    lex_number();
  } else if (is_name_char(c)) {
    token_.kind = TokenKind::Word;
    token_.text = take_name();
  } else if (std::string_view("()[]{},:=;<>*/+-@").find(c) != std::string_view::npos) {
    ++at_;
    token_.kind = TokenKind::Punct;
    token_.text = std::string(1, c);
  } else {
    fail(str("unexpected character (byte ", static_cast<int>(static_cast<unsigned char>(c)), ")"));
  }
}

}  // namespace tessera
