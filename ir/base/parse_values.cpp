// Parsers of what all our texts share: axes, types, attributes, weight sources (declared in
// ir/base/lexer.h).
#include "ir/base/diag.h"
#include "ir/base/lexer.h"
#include "ir/base/text.h"

namespace tessera {

Axes parse_axes(Lexer& lexer, const Grid& grid) {
  Axes axes;
  do {
    const Token token = lexer.peek();
    const std::string name = lexer.word("a grid axis");
    const AxisId axis = grid.find(name);
    if (axis < 0) {
      throw CompileError(lexer.where(token),
                         str("'", name, "' is not an axis of the grid [", grid.text(), "]"));
    }
    if (contains(axes, axis))
      throw CompileError(lexer.where(token), str("axis ", name, " is named twice"));
    axes.push_back(axis);
  } while (lexer.accept(","));
  return axes;
}

Ints parse_ints(Lexer& lexer) {
  Ints ints;
  lexer.expect("(");
  while (!lexer.is(")")) {
    if (!ints.empty()) lexer.expect(",");
    ints.push_back(lexer.integer("a list element"));
  }
  lexer.expect(")");
  return ints;
}

Type parse_type(Lexer& lexer, const Grid& grid) {
  const Token start = lexer.peek();
  const auto dtype = dtype_named(lexer.word("a type"));
  if (!dtype) throw CompileError(lexer.where(start), str("unknown dtype '", start.text, "'"));
  Type type(*dtype, {});
  lexer.expect("[");
  while (!lexer.is("]")) {
    if (type.rank() > 0) lexer.expect(",");
    type.shape.push_back(lexer.integer("a dimension"));
    type.cuts.emplace_back();
    if (lexer.accept("{")) {
      type.cuts.back() = parse_axes(lexer, grid);
      lexer.expect("}");
    }
  }
  lexer.expect("]");
  if (!sizes_are_sane(type.shape))
    throw CompileError(lexer.where(start), "sizes are negative or too large");
  if (lexer.accept("partial")) {
    lexer.expect("(");
    const auto op = reduce_op_named(lexer.word("a reduce operator"));
    if (!op) lexer.fail("unknown reduce operator", {"known: sum, max, min, prod"});
    lexer.expect(":");
    type.partial = {*op, parse_axes(lexer, grid)};
    lexer.expect(")");
  }
  return type;
}

namespace {

Attr parse_attr(Lexer& lexer, const AttrSpec& spec, const Grid& grid) {
  switch (spec.kind) {
    case AttrKind::Int:
      return lexer.integer(spec.name);
    case AttrKind::Float:
      return lexer.number(spec.name);
    case AttrKind::Text:
      return lexer.quoted_text(spec.name);
    case AttrKind::IntList:
      return parse_ints(lexer);
    case AttrKind::AxisList:
      return AxesAttr{parse_axes(lexer, grid)};
    case AttrKind::Bool: {
      if (lexer.accept("true")) return true;
      lexer.expect("false");
      return false;
    }
    case AttrKind::Dtype: {
      const auto dtype = dtype_named(lexer.peek().text);
      if (!dtype) lexer.fail("expected a dtype");
      lexer.next();
      return *dtype;
    }
  }
  return false;
}

}  // namespace

AttrList parse_attrs(Lexer& lexer, OpKind kind, const Grid& grid, AttrList attrs) {
  for (const AttrSpec& spec : attr_specs(kind)) {
    if (!spec.bare && !lexer.accept(spec.name)) {
      if (spec.optional) continue;
      lexer.fail(str(mnemonic(kind), ": expected attribute '", spec.name, "'"));
    }
    attrs.set(spec.name, parse_attr(lexer, spec, grid));
  }
  return attrs;
}

std::string attrs_text(const AttrList& attrs, OpKind kind, const Grid& grid) {
  std::string text;
  for (const AttrSpec& spec : attr_specs(kind)) {
    const Attr* attr = attrs.find(spec.name);
    if (attr == nullptr) continue;
    text += ' ';
    if (!spec.bare) text += str(spec.name, ' ');
    text += to_text(*attr, grid);
  }
  return text;
}

namespace {

ViewStep parse_view_step(Lexer& lexer) {
  const Token token = lexer.peek();
  const std::string word = lexer.word("a view step");
  const Ints args = parse_ints(lexer);
  if (word == "slice") return {ViewKind::Slice, args};
  if (word == "reshape") return {ViewKind::Reshape, args};
  if (word == "permute") return {ViewKind::Permute, args};
  throw CompileError(lexer.where(token), str("unknown view step '", word, "'"),
                     {"known: slice, reshape, permute"});
}

std::string to_text(const ViewStep& step) {
  const std::string_view word = step.kind == ViewKind::Slice     ? "slice"
                                : step.kind == ViewKind::Reshape ? "reshape"
                                                                 : "permute";
  return str(word, "(", join(step.args, ","), ")");
}

bool view_fits(Shape shape, const std::vector<ViewStep>& view) {
  try {
    return sizes_are_sane(viewed_shape(std::move(shape), view));
  } catch (const InternalError&) {
    return false;
  } catch (const std::out_of_range&) {
    return false;
  }
}

}  // namespace

WeightSource parse_weight_source(Lexer& lexer) {
  const Token start = lexer.peek();
  WeightSource source;
  source.file = lexer.quoted_text("a file name");
  source.tensor = lexer.quoted_text("a tensor name");
  lexer.expect("offset");
  const std::int64_t offset = lexer.integer("offset");
  lexer.expect("bytes");
  const std::int64_t bytes = lexer.integer("bytes");
  if (offset < 0 || bytes < 0)
    throw CompileError(lexer.where(start), "weight offset and bytes must not be negative");
  source.offset = static_cast<std::uint64_t>(offset);
  source.bytes = static_cast<std::uint64_t>(bytes);
  lexer.expect(":");
  const Type type = parse_type(lexer, Grid());
  source.dtype = type.dtype;
  source.shape = type.shape;
  if (lexer.accept("view")) {
    while (lexer.is("slice") || lexer.is("reshape") || lexer.is("permute"))
      source.view.push_back(parse_view_step(lexer));
  }
  if (!view_fits(source.shape, source.view))
    throw CompileError(lexer.where(start), "weight view does not fit its tensor");
  if (lexer.accept("sha256")) source.sha256 = lexer.quoted_text("a hash");
  source.trainable = !lexer.accept("frozen");
  if (lexer.accept("aliases")) {
    lexer.expect("(");
    do {
      source.aliases.push_back(lexer.quoted_text("an alias"));
    } while (lexer.accept(","));
    lexer.expect(")");
  }
  return source;
}

std::string to_text(const WeightSource& source) {
  std::string text =
      str(in_quotes(source.file), " ", in_quotes(source.tensor), " offset ", source.offset,
          " bytes ", source.bytes, " : ", to_text(Type(source.dtype, source.shape), Grid()));
  if (!source.view.empty()) {
    text +=
        str(" view ", join(source.view, " ", [](const ViewStep& step) { return to_text(step); }));
  }
  if (!source.sha256.empty()) text += str(" sha256 ", in_quotes(source.sha256));
  if (!source.trainable) text += " frozen";
  if (!source.aliases.empty()) text += str(" aliases(", join(source.aliases, ", ", in_quotes), ")");
  return text;
}

}  // namespace tessera
