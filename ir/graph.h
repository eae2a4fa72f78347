// Module, Func, Op, Value: a module owns functions, a function owns a straight list of ops, the
// order of the list is the schedule. Use lists are kept exact by set_operand and replace_all_uses.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/base/index_map.h"
#include "ir/base/op_kind.h"
#include "ir/base/tensor.h"
#include "ir/base/type.h"
#include "ir/base/weights.h"

namespace tessera {

class Func;
struct Op;

struct Value {
  std::string name;
  Type type;
  Op* def = nullptr;  // null: an argument
  int index = 0;      // which result of def, or which argument
  std::vector<Op*>
      users;  // one entry per use, in no order; results of the function are not counted
};

// Which axes cut each loop of an op's index map (Assigned level).
using LoopAxes = std::map<char, Axes>;

struct Op {
  OpKind kind = OpKind::Add;
  AttrList attrs;
  std::vector<Value*> operands;
  std::vector<std::unique_ptr<Value>> results;
  std::optional<LoopAxes> loops;  // only at level Assigned
  std::string origin;             // the ONNX node it comes from; may be empty
  std::string location;           // file:line:column when it was parsed; may be empty
  std::list<std::unique_ptr<Op>>::iterator place;
  Func* func = nullptr;

  Value* result(std::size_t i = 0) const { return results[i].get(); }
  Value* operand(std::size_t i) const { return operands[i]; }
};

enum class ArgKind : std::uint8_t {
  Input,  // written by the host before the function runs
  Param,  // persistent, initialised from Module::weights
  State,  // persistent, zero at first
};
std::string_view name(ArgKind kind);

struct Arg {
  std::unique_ptr<Value> value;
  ArgKind kind = ArgKind::Input;
};

// `updates`: the value becomes the new content of the argument called `name`. Otherwise an output
// of that name.
struct FuncResult {
  Value* value = nullptr;
  std::string name;
  bool updates = false;
};

class Func {
 public:
  using OpList = std::list<std::unique_ptr<Op>>;

  explicit Func(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  Value* add_arg(const std::string& name, Type type, ArgKind kind);
  void erase_arg(Value* arg);  // must have no users
  const std::vector<Arg>& args() const { return args_; }
  std::vector<Arg>& args() { return args_; }
  Value* find_arg(std::string_view name) const;  // null if absent
  const Arg& arg_of(const Value* value) const {
    return args_[static_cast<std::size_t>(value->index)];
  }

  OpList& ops() { return ops_; }
  const OpList& ops() const { return ops_; }
  std::vector<FuncResult> results;

  // Inserts before `where`. Results get `types`; names are derived from `name` and made unique.
  Op* insert(OpList::iterator where, OpKind kind, std::vector<Value*> operands, AttrList attrs,
             std::vector<Type> types, const std::string& name);
  void erase(Op* op);  // its results must have no users
  void move_before(Op* op, OpList::iterator where);
  void set_operand(Op* op, std::size_t i, Value* value);
  void replace_all_uses(Value* old, Value* replacement);  // function results too
  bool has_uses(const Value* value) const;                // by ops or function results
  bool is_result(const Value* value) const;
  bool erase_unused_ops();  // ops that no result depends on; returns whether there were any

  // A name derived from `base` that no value of the function has: base, base.1, base.2 ...
  std::string unique_name(const std::string& base);
  void rename(Value* value, const std::string& base);
  Value* find_value(std::string_view name) const;  // slow; for parsers and tests

 private:
  std::string name_;
  std::vector<Arg> args_;
  OpList ops_;
  std::set<std::string, std::less<>> names_;
  std::map<std::string, Value*, std::less<>> arg_named_;
  std::map<std::string, int, std::less<>> next_suffix_;
};

enum class Level : std::uint8_t { Logical, Assigned, Sharded, Scheduled };
std::string_view name(Level level);

class Module {
 public:
  Grid grid;
  Level level = Level::Logical;
  std::map<std::string, WeightSource> weights;  // by argument name
  std::map<std::string, Tensor> constants;      // by the `data` attribute of constant ops
  std::map<std::string, std::string>
      notes;  // facts for later stages and tools: model, logits, labels ...
  std::int64_t micro_batches = 1;

  Func* add_func(const std::string& name);
  void erase_func(Func* func);
  Func* find(std::string_view name) const;
  const std::vector<std::unique_ptr<Func>>& funcs() const { return funcs_; }

  // Stores a tensor under a name derived from its content, so that equal constants are one.
  std::string add_constant(const Tensor& tensor);

 private:
  std::vector<std::unique_ptr<Func>> funcs_;
};

// A name of the characters that %names may have: others become '.', runs of dots one.
std::string sanitised_name(std::string_view name);

}  // namespace tessera
