// Tokens of all our texts (IR modules, plans, grids): one lexer, so that types and attributes read
// the same everywhere. Errors are CompileErrors that name file, line and column.
#pragma once
#include <string>
#include <string_view>

#include "ir/base/attr.h"
#include "ir/base/op_kind.h"
#include "ir/base/tensor.h"
#include "ir/base/type.h"
#include "ir/base/weights.h"

namespace tessera {

enum class TokenKind : std::uint8_t {
  End,
  Word,       // letters, digits, '_', '.': einsum, f32, all_gather.start
  ValueName,  // %name
  FuncName,   // @name
  Number,     // -12, 0.5, 1e-05; also inf, nan, -inf
  Text,       // "..." (unescaped in Token::text)
  Punct,      // one of ( ) [ ] { } , : = ; < > * / + - @ and ->
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;  // without the sigil
  int line = 1;
  int column = 1;
};

class Lexer {
 public:
  // `file` is only used in messages. Comments run from // or # to the end of the line.
  Lexer(std::string text, std::string file);

  const Token& peek() const { return token_; }
  Token next();
  bool at_end() const { return token_.kind == TokenKind::End; }

  bool is(std::string_view punct_or_word) const;  // the next token is this punctuation or word
  bool accept(std::string_view punct_or_word);    // consumes it if so
  void expect(std::string_view punct_or_word);
  std::string word(std::string_view what);  // a Word, described as `what` in the error
  std::string value_name();
  std::string func_name();
  std::string quoted_text(std::string_view what);
  std::int64_t integer(std::string_view what);
  double number(std::string_view what);

  std::string where() const;  // file:line:column of the next token
  std::string where(const Token& token) const;
  [[noreturn]] void fail(const std::string& message, std::vector<std::string> notes = {}) const;

 private:
  void advance();
  void skip_blanks();
  void lex_text();
  void lex_number();
  bool at_number() const;
  std::string take_name();

  std::string text_;
  std::string file_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t line_start_ = 0;
  Token token_;
};

Axes parse_axes(Lexer& lexer, const Grid& grid);  // data,z (one or more)
Ints parse_ints(Lexer& lexer);                    // (1,2)
Type parse_type(Lexer& lexer, const Grid& grid);  // f32[64{data,z}, 512{y}] partial(sum: x)
AttrList parse_attrs(Lexer& lexer, OpKind kind, const Grid& grid, AttrList attrs = {});
std::string attrs_text(const AttrList& attrs, OpKind kind,
                       const Grid& grid);  // " over z dim 1", or empty

// (1,-2,3): the elements of a small tensor. Floats print shortest and read back exactly.
std::string elements_text(const Tensor& tensor);
Tensor parse_elements(Lexer& lexer, const Type& type);

// "file" "tensor" offset 12 bytes 64 : f32[4,4] view slice(0,0,2) permute(1,0) sha256 "..." frozen
// aliases("a","b")
WeightSource parse_weight_source(Lexer& lexer);
std::string to_text(const WeightSource& source);

}  // namespace tessera
