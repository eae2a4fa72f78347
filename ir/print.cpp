#include "ir/print.h"

#include "ir/base/lexer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

std::string loops_text(const LoopAxes& loops, const Grid& grid) {
  std::string text;
  for (const auto& [loop, axes] : loops) {
    if (axes.empty()) continue;
    text += str(text.empty() ? "" : "; ", loop, ": ", grid.text(axes));
  }
  return str(" loops(", text, ")");
}

std::string arg_text(const Arg& arg, const Grid& grid) {
  return str("%", arg.value->name, ": ", to_text(arg.value->type, grid), " ", name(arg.kind));
}

std::string result_text(const FuncResult& result) {
  return result.updates ? str("%", result.value->name, " updates %", result.name)
                        : str("%", result.value->name, " as ", in_quotes(result.name));
}

// Short lists on one line, longer ones with one item a line.
template <class Range, class Show>
std::string laid_out(const Range& range, const std::string& indent, Show show) {
  if (range.size() <= 3) return join(range, ", ", show);
  return str("\n", indent, join(range, ",\n" + indent, show));
}

std::string to_text(const Func& func, const Grid& grid) {
  const std::string args =
      laid_out(func.args(), "    ", [&](const Arg& arg) { return arg_text(arg, grid); });
  std::string text = str("func @", func.name(), "(", args, ") {\n");
  for (const auto& op : func.ops()) text += str("  ", to_text(*op, grid), "\n");
  const std::string results = laid_out(func.results, "      ", result_text);
  return text +
         str("  return", results.starts_with("\n") || results.empty() ? "" : " ", results, "\n}\n");
}

}  // namespace

std::string constant_text(const Tensor& tensor) {
  return str(to_text(Type(tensor.dtype(), tensor.shape()), Grid()), " ", elements_text(tensor));
}

std::string to_text(const Op& op, const Grid& grid) {
  std::string text =
      str(join(op.results, ", ", [](const auto& result) { return "%" + result->name; }), " = ",
          op_word(op.kind, op.attrs));
  if (!op.operands.empty()) {
    text +=
        str(" ", join(op.operands, ", ", [](const Value* operand) { return "%" + operand->name; }));
  }
  text += attrs_text(op.attrs, op.kind, grid);
  if (op.loops) text += loops_text(*op.loops, grid);
  text += str(" : ", join(op.results, ", ",
                          [&](const auto& result) { return to_text(result->type, grid); }));
  if (!op.origin.empty()) text += str(" from ", in_quotes(op.origin));
  return text;
}

std::string to_text(const Module& module, const PrintOptions& options) {
  std::string text = str(
      "grid [",
      join(module.grid.axes(), ", ", [](const GridAxis& a) { return str(a.name, "=", a.size); }),
      "]\nlevel ", name(module.level), "\n");
  if (module.micro_batches != 1) text += str("micro_batches ", module.micro_batches, "\n");
  for (const auto& [key, value] : module.notes)
    text += str("note ", in_quotes(key), " ", in_quotes(value), "\n");
  for (const auto& [arg, source] : module.weights)
    text += str("weight %", arg, " = ", to_text(source), "\n");
  for (const auto& [key, tensor] : module.constants) {
    const bool apart = tensor.size() > kInlineConstant && !options.constants_file.empty();
    text += str("const ", in_quotes(key), " = ",
                apart ? str(to_text(Type(tensor.dtype(), tensor.shape()), Grid()), " file ",
                            in_quotes(options.constants_file))
                      : constant_text(tensor),
                "\n");
  }
  for (const auto& func : module.funcs()) text += str("\n", to_text(*func, module.grid));
  return text;
}

}  // namespace tessera
