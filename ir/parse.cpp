#include "ir/parse.h"

#include <algorithm>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

std::vector<GridAxis> parse_grid_axes(Lexer& lexer) {
  std::vector<GridAxis> axes;
  std::int64_t ranks = 1;
  lexer.expect("[");
  while (!lexer.is("]")) {
    if (!axes.empty()) lexer.expect(",");
    GridAxis axis;
    axis.name = lexer.word("an axis name");
    lexer.expect("=");
    const std::int64_t size = lexer.integer("an axis size");
    if (size < 1 || size > 1 << 20 || (ranks *= size) > 1 << 20)
      lexer.fail("axis size out of range");
    axis.size = static_cast<int>(size);
    if (std::ranges::any_of(axes, [&](const GridAxis& a) { return a.name == axis.name; })) {
      lexer.fail(str("axis ", axis.name, " is named twice"));
    }
    axes.push_back(std::move(axis));
  }
  lexer.expect("]");
  return axes;
}

class ModuleParser {
 public:
  ModuleParser(const std::string& text, const std::string& file, const ConstantLoader& loader)
      : lexer_(text, file), loader_(loader) {}

  Module parse() {
    while (!lexer_.at_end()) parse_item();
    return std::move(module_);
  }

 private:
  void parse_item() {
    if (lexer_.accept("grid")) {
      module_.grid = Grid(parse_grid_axes(lexer_));
    } else if (lexer_.accept("level")) {
      parse_level();
    } else if (lexer_.accept("micro_batches")) {
      module_.micro_batches = lexer_.integer("a count");
      if (module_.micro_batches < 1) lexer_.fail("micro_batches must be at least 1");
    } else if (lexer_.accept("note")) {
      const std::string key = lexer_.quoted_text("a note's key");
      module_.notes[key] = lexer_.quoted_text("a note");
    } else if (lexer_.accept("weight")) {
      const std::string arg = lexer_.value_name();
      lexer_.expect("=");
      module_.weights[arg] = parse_weight_source(lexer_);
    } else if (lexer_.accept("const")) {
      parse_const();
    } else if (lexer_.accept("func")) {
      parse_func();
    } else {
      lexer_.fail("expected grid, level, micro_batches, note, weight, const or func");
    }
  }

  void parse_level() {
    const std::string word = lexer_.word("a level");
    for (const Level level : {Level::Logical, Level::Assigned, Level::Sharded, Level::Scheduled}) {
      if (name(level) == word) {
        module_.level = level;
        return;
      }
    }
    lexer_.fail(str("unknown level '", word, "'"),
                {"known: logical, assigned, sharded, scheduled"});
  }

  void parse_const() {
    const std::string key = lexer_.quoted_text("a constant's name");
    lexer_.expect("=");
    const Token start = lexer_.peek();
    const Type type = parse_type(lexer_, Grid());
    if (!lexer_.accept("file")) {
      module_.constants.insert_or_assign(key, parse_elements(lexer_, type));
      return;
    }
    const std::string file = lexer_.quoted_text("a file name");
    if (!loader_)
      throw CompileError(lexer_.where(start), str("constant ", in_quotes(key), " is in file ", file,
                                                  ", which cannot be read here"));
    Tensor tensor = loader_(file, key);
    if (tensor.dtype() != type.dtype || tensor.shape() != type.shape) {
      throw CompileError(lexer_.where(start),
                         str("constant ", in_quotes(key), " in ", file, " has another type"));
    }
    module_.constants.insert_or_assign(key, std::move(tensor));
  }

  void parse_func() {
    const std::string name = lexer_.func_name();
    if (module_.find(name) != nullptr) lexer_.fail(str("function @", name, " is defined twice"));
    func_ = module_.add_func(name);
    values_.clear();
    lexer_.expect("(");
    while (!lexer_.is(")")) {
      if (!func_->args().empty()) lexer_.expect(",");
      parse_arg();
    }
    lexer_.expect(")");
    lexer_.expect("{");
    while (!lexer_.is("return")) parse_op();
    parse_return();
    lexer_.expect("}");
  }

  void parse_arg() {
    const Token token = lexer_.peek();
    const std::string name = lexer_.value_name();
    lexer_.expect(":");
    Type type = parse_type(lexer_, module_.grid);
    ArgKind kind = ArgKind::Input;
    if (lexer_.accept("param")) {
      kind = ArgKind::Param;
    } else if (lexer_.accept("state")) {
      kind = ArgKind::State;
    } else {
      lexer_.accept("input");
    }
    define(token, name, func_->add_arg(name, std::move(type), kind));
  }

  void define(const Token& token, const std::string& name, Value* value) {
    if (!values_.emplace(name, value).second) {
      throw CompileError(lexer_.where(token), str("%", name, " is defined twice"));
    }
  }

  Value* parse_use() {
    const Token token = lexer_.peek();
    const auto found = values_.find(lexer_.value_name());
    if (found == values_.end()) {
      throw CompileError(lexer_.where(token),
                         str("%", token.text, " is not defined before this use"));
    }
    return found->second;
  }

  void parse_op() {
    std::vector<Token> names;
    do {
      names.push_back(lexer_.peek());
      lexer_.value_name();
    } while (lexer_.accept(","));
    lexer_.expect("=");
    const Token word = lexer_.peek();
    auto named = op_named(lexer_.word("an op"));
    if (!named) throw CompileError(lexer_.where(word), str("unknown op '", word.text, "'"));
    std::vector<Value*> operands;
    if (lexer_.peek().kind == TokenKind::ValueName) {
      do {
        operands.push_back(parse_use());
      } while (lexer_.accept(","));
    }
    AttrList attrs = parse_attrs(lexer_, named->kind, module_.grid, std::move(named->attrs));
    std::optional<LoopAxes> loops;
    if (lexer_.accept("loops")) loops = parse_loops();
    lexer_.expect(":");
    std::vector<Type> types;
    do {
      types.push_back(parse_type(lexer_, module_.grid));
    } while (lexer_.accept(","));
    if (types.size() != names.size()) {
      throw CompileError(lexer_.where(word),
                         str(names.size(), " results but ", types.size(), " types"));
    }
    Op* op = func_->insert(func_->ops().end(), named->kind, std::move(operands), std::move(attrs),
                           std::move(types), "?");
    op->location = lexer_.where(names[0]);
    op->loops = std::move(loops);
    if (lexer_.accept("from")) op->origin = lexer_.quoted_text("an origin");
    for (std::size_t i = 0; i < names.size(); ++i) {
      define(names[i], names[i].text, op->result(i));
      func_->rename(op->result(i), names[i].text);
    }
  }

  LoopAxes parse_loops() {
    LoopAxes loops;
    lexer_.expect("(");
    while (!lexer_.is(")")) {
      if (!loops.empty()) lexer_.expect(";");
      const std::string loop = lexer_.word("a loop");
      if (loop.size() != 1) lexer_.fail(str("'", loop, "' is not a loop"));
      lexer_.expect(":");
      loops[loop[0]] = parse_axes(lexer_, module_.grid);
    }
    lexer_.expect(")");
    return loops;
  }

  void parse_return() {
    lexer_.expect("return");
    while (!lexer_.is("}")) {
      if (!func_->results.empty()) lexer_.expect(",");
      Value* value = parse_use();
      if (lexer_.accept("updates")) {
        func_->results.push_back({value, lexer_.value_name(), true});
      } else {
        lexer_.expect("as");
        func_->results.push_back({value, lexer_.quoted_text("an output's name"), false});
      }
    }
  }

  Lexer lexer_;
  const ConstantLoader& loader_;
  Module module_;
  Func* func_ = nullptr;
  std::map<std::string, Value*, std::less<>> values_;
};

}  // namespace

Tensor parse_constant(Lexer& lexer) {
  const Type type = parse_type(lexer, Grid());
  return parse_elements(lexer, type);
}

Module parse_module(const std::string& text, const std::string& file,
                    const ConstantLoader& loader) {
  return ModuleParser(text, file, loader).parse();
}

}  // namespace tessera
