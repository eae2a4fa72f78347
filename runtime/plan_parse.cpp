// Text -> plan. Nothing in the text is trusted: the hash first, then every name, index, size and
// offset.
#include <map>

#include "ir/base/diag.h"
#include "ir/base/lexer.h"
#include "ir/base/safetensors.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"
#include "runtime/plan.h"

namespace tessera {
namespace {

class PlanParser {
 public:
  PlanParser(const std::string& text, const std::string& file, const std::filesystem::path& folder)
      : lexer_(text, file), folder_(folder) {}

  Plan parse() {
    lexer_.expect("tessera");
    lexer_.expect("-");
    lexer_.expect("plan");
    plan_.version = static_cast<int>(lexer_.integer("the format version"));
    if (plan_.version != kPlanVersion) {
      lexer_.fail(str("plan format ", plan_.version, ", this program reads format ", kPlanVersion),
                  {"compile the plan again"});
    }
    while (!lexer_.at_end()) parse_item();
    if (plan_.funcs.empty()) lexer_.fail("the plan has no function");
    return std::move(plan_);
  }

 private:
  void parse_item() {
    if (lexer_.accept("grid")) {
      parse_grid();
    } else if (lexer_.accept("target")) {
      plan_.target = lexer_.quoted_text("the target");
    } else if (lexer_.accept("isa")) {
      plan_.isa = lexer_.quoted_text("the instruction set");
    } else if (lexer_.accept("arena")) {
      plan_.arena_bytes = lexer_.integer("the arena's bytes");
      lexer_.expect("align");
      plan_.alignment = lexer_.integer("the alignment");
      if (plan_.arena_bytes < 0 || plan_.arena_bytes > kMaxArenaBytes || plan_.alignment < 1 ||
          plan_.alignment > 4096)
        lexer_.fail("arena out of range");
    } else if (lexer_.accept("micro_batches")) {
      plan_.micro_batches = lexer_.integer("a count");
      if (plan_.micro_batches < 1 || plan_.micro_batches > 1 << 20)
        lexer_.fail("micro_batches out of range");
    } else if (lexer_.accept("model")) {
      plan_.model = lexer_.quoted_text("the model's name");
    } else if (lexer_.accept("note")) {
      const std::string key = lexer_.quoted_text("a note's key");
      plan_.notes[key] = lexer_.quoted_text("a note");
    } else if (lexer_.accept("comm")) {
      if (lexer_.integer("a communicator") != static_cast<std::int64_t>(plan_.comms.size()))
        lexer_.fail("communicators must be numbered 0, 1, 2 ...");
      lexer_.expect("over");
      plan_.comms.push_back(parse_axes(lexer_, plan_.grid));
    } else if (lexer_.accept("weight")) {
      const std::string arg = lexer_.value_name();
      lexer_.expect("=");
      plan_.weights[arg] = parse_weight_source(lexer_);
    } else if (lexer_.accept("const")) {
      parse_const();
    } else if (lexer_.accept("func")) {
      parse_func();
    } else if (lexer_.accept("hash")) {
      plan_.hash = lexer_.quoted_text("the hash");
      if (!lexer_.at_end()) lexer_.fail("text after the hash");
    } else {
      lexer_.fail("unexpected text");
    }
  }

  void parse_grid() {
    std::string text;
    do {
      const std::string name = lexer_.word("an axis");
      lexer_.expect("=");
      text += str(text.empty() ? "" : ",", name, "=", lexer_.integer("an axis size"));
    } while (lexer_.accept(","));
    plan_.grid = Grid::parse(text, lexer_.where());
  }

  void parse_const() {
    const std::string key = lexer_.quoted_text("a constant's name");
    lexer_.expect(":");
    const Type type = parse_type(lexer_, Grid());
    lexer_.expect("=");
    if (lexer_.accept("file")) {
      if (lexer_.quoted_text("a file") != kPlanConstantsFile) lexer_.fail("unknown constants file");
      const auto index = read_safetensors_index(folder_ / kPlanConstantsFile);
      const auto found = index.tensors.find(key);
      if (found == index.tensors.end() || found->second.dtype != type.dtype ||
          found->second.shape != type.shape) {
        lexer_.fail(str("constant ", in_quotes(key), " is missing in ", kPlanConstantsFile,
                        " or has another type"));
      }
      plan_.constants[key] = read_safetensor(folder_ / kPlanConstantsFile, found->second);
      return;
    }
    if (elements(type.shape) > kPlanInlineConstant) {
      lexer_.fail("the constant is too large to be inline");
    }
    plan_.constants[key] = parse_elements(lexer_, type);
  }

  void parse_func() {
    PlanFunc func;
    func.name = lexer_.func_name();
    if (plan_.find(func.name) != nullptr)
      lexer_.fail(str("function @", func.name, " is defined twice"));
    func_ = &func;
    by_name_.clear();
    lexer_.expect("{");
    while (lexer_.accept("arg")) parse_arg();
    while (!lexer_.is("return") && !lexer_.is("}")) func.steps.push_back(parse_step(false));
    while (lexer_.accept("return")) parse_result();
    lexer_.expect("}");
    plan_.funcs.push_back(std::move(func));
  }

  int define(const std::string& name, bool needs_buffer) {
    PlanValue value;
    value.name = name;
    value.type = parse_type(lexer_, plan_.grid);
    if (needs_buffer) value.offset = parse_offset(largest_local_bytes(value.type, plan_.grid));
    if (!by_name_.emplace(name, static_cast<int>(func_->values.size())).second)
      lexer_.fail(str("%", name, " is defined twice"));
    func_->values.push_back(std::move(value));
    return static_cast<int>(func_->values.size()) - 1;
  }

  std::int64_t parse_offset(std::int64_t bytes) {
    lexer_.expect("@");
    const std::int64_t offset = lexer_.integer("an offset");
    if (offset < 0 || offset % plan_.alignment != 0 || offset > plan_.arena_bytes ||
        bytes > plan_.arena_bytes - offset) {
      lexer_.fail(str("a buffer of ", bytes, " bytes at ", offset, " does not fit the arena of ",
                      plan_.arena_bytes));
    }
    return offset;
  }

  int use(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) lexer_.fail(str("%", name, " is not defined"));
    return found->second;
  }

  void parse_arg() {
    const std::string name = lexer_.value_name();
    lexer_.expect(":");
    PlanArg arg;
    arg.value = define(name, true);
    const std::string role = lexer_.word("a role");
    if (role != "input" && role != "param" && role != "state")
      lexer_.fail(str("unknown role '", role, "'"));
    arg.role = role == "input" ? ArgRole::Input : role == "param" ? ArgRole::Param : ArgRole::State;
    if (arg.role == ArgRole::Param && !plan_.weights.contains(name))
      lexer_.fail(str("parameter %", name, " has no weight"));
    func_->args.push_back(arg);
  }

  PlanStep parse_step(bool inside) {
    PlanStep step;
    const bool fused = !inside && lexer_.accept("fused");
    std::vector<std::string> names;
    do {
      names.push_back(lexer_.value_name());
    } while (lexer_.accept(","));
    lexer_.expect("=");
    if (!fused) {
      const auto named = op_named(lexer_.word("an op"));
      if (!named || named->kind == OpKind::Reshard) lexer_.fail("not an op of plans");
      step.kind = named->kind;
      step.attrs = named->attrs;
    }
    if (lexer_.peek().kind == TokenKind::ValueName) {
      do {
        step.operands.push_back(use(lexer_.value_name()));
      } while (lexer_.accept(","));
    }
    if (!fused) step.attrs = parse_attrs(lexer_, step.kind, plan_.grid, std::move(step.attrs));
    lexer_.expect(":");
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) lexer_.expect(",");
      step.results.push_back(define(names[i], !inside));
    }
    check_movement(step, fused);
    parse_step_tail(step);
    if (fused) parse_body(step);
    return step;
  }

  // What moves bytes moves those of one value: the same elements, and for collectives the same
  // sizes.
  void check_movement(const PlanStep& step, bool fused) {
    const bool collective = !fused && family(step.kind) == OpFamily::Collective;
    if (!collective && (fused || step.kind != OpKind::Reshape)) return;
    if (step.operands.size() != 1 || step.results.size() != 1)
      lexer_.fail(str(mnemonic(step.kind), " takes one value and gives one"));
    const Type& from = func_->values[static_cast<std::size_t>(step.operands[0])].type;
    const Type& to = func_->values[static_cast<std::size_t>(step.results[0])].type;
    const bool same =
        collective ? from.shape == to.shape : elements(from.shape) == elements(to.shape);
    if (!same || from.dtype != to.dtype || (step.kind == OpKind::Wait && from != to))
      lexer_.fail(str(mnemonic(step.kind), " gives another type than it takes"));
  }

  void parse_step_tail(PlanStep& step) {
    if (lexer_.accept("comm")) {
      step.comm = static_cast<int>(lexer_.integer("a communicator"));
      if (step.comm < 0 || step.comm >= static_cast<int>(plan_.comms.size()))
        lexer_.fail("no such communicator");
    }
    if (lexer_.accept("stream")) step.stream = lexer_.quoted_text("a stream");
    if (lexer_.accept("after")) {
      for (std::int64_t at : parse_ints(lexer_)) {
        if (at < 0 || at >= static_cast<std::int64_t>(func_->steps.size()))
          lexer_.fail("'after' names a later step");
        step.after.push_back(static_cast<int>(at));
      }
    }
    if (lexer_.accept("from")) step.origin = lexer_.quoted_text("an origin");
  }

  // Results of a fused step are buffers that its body writes: the body's line of the same name
  // gives no buffer.
  void parse_body(PlanStep& step) {
    std::map<std::string, int> outer;
    for (int result : step.results) {
      const std::string& name = func_->values[static_cast<std::size_t>(result)].name;
      outer[name] = result;
      by_name_.erase(name);
    }
    lexer_.expect("{");
    while (!lexer_.is("}")) {
      step.body.push_back(parse_step(true));
      for (int& result : step.body.back().results) merge_body_result(result, outer);
    }
    lexer_.expect("}");
    if (step.body.empty()) lexer_.fail("a fused step without a body");
    for (const auto& [name, result] : outer) {
      if (use(name) != result) lexer_.fail(str("%", name, " is not computed by the fused step"));
    }
  }

  void merge_body_result(int& result, const std::map<std::string, int>& outer) {
    const auto found = outer.find(func_->values[static_cast<std::size_t>(result)].name);
    if (found == outer.end()) return;
    const bool same = func_->values[static_cast<std::size_t>(found->second)].type ==
                      func_->values[static_cast<std::size_t>(result)].type;
    if (!same) lexer_.fail(str("%", found->first, " has two types"));
    func_->values.pop_back();
    by_name_[found->first] = found->second;
    result = found->second;
  }

  void parse_result() {
    PlanResult result;
    result.value = use(lexer_.value_name());
    result.updates = lexer_.accept("updates");
    if (result.updates) {
      result.name = lexer_.value_name();
    } else {
      lexer_.expect("as");
      result.name = lexer_.quoted_text("an output's name");
    }
    func_->results.push_back(std::move(result));
  }

  Lexer lexer_;
  const std::filesystem::path& folder_;
  Plan plan_;
  PlanFunc* func_ = nullptr;
  std::map<std::string, int> by_name_;
};

// The last line is the hash of everything before it.
void check_hash(const std::string& text, const std::string& file) {
  const std::size_t at = text.rfind("\nhash \"");
  if (at == std::string::npos)
    throw CompileError(file, "the plan's text is damaged: it has no hash",
                       {"compile the plan again"});
  const std::string expected =
      str("\nhash ", in_quotes(sha256(std::string_view(text).substr(0, at))), "\n");
  if (text.substr(at) != expected) {
    throw CompileError(file, "the plan's text was changed or is damaged: its hash does not match",
                       {"compile the plan again"});
  }
}

}  // namespace

Plan parse_plan(const std::string& text, const std::string& file,
                const std::filesystem::path& folder) {
  const std::string first = text.substr(0, text.find('\n'));
  if (!first.starts_with("tessera-plan "))
    throw CompileError(file, "is not a plan", {"plans are made by `tessera compile`"});
  if (first == str("tessera-plan ", kPlanVersion)) check_hash(text, file);
  return PlanParser(text, file, folder).parse();
}

}  // namespace tessera
