#include "ir/graph.h"

#include <algorithm>
#include <cstring>

#include "ir/base/text.h"

namespace tessera {

std::string_view name(ArgKind kind) {
  switch (kind) {
    case ArgKind::Input:
      return "input";
    case ArgKind::Param:
      return "param";
    case ArgKind::State:
      return "state";
  }
  return {};
}

std::string_view name(Level level) {
  switch (level) {
    case Level::Logical:
      return "logical";
    case Level::Assigned:
      return "assigned";
    case Level::Sharded:
      return "sharded";
    case Level::Scheduled:
      return "scheduled";
  }
  return {};
}

Value* Func::add_arg(const std::string& name, Type type, ArgKind kind) {
  auto value = std::make_unique<Value>();
  value->name = unique_name(name);
  value->type = std::move(type);
  value->index = static_cast<int>(args_.size());
  args_.push_back({std::move(value), kind});
  Value* arg = args_.back().value.get();
  arg_named_[arg->name] = arg;
  return arg;
}

void Func::erase_arg(Value* arg) {
  TESSERA_CHECK(arg->def == nullptr && !has_uses(arg), "erasing argument %", arg->name,
                " which is in use");
  names_.erase(arg->name);
  arg_named_.erase(arg->name);
  args_.erase(args_.begin() + arg->index);
  for (std::size_t i = 0; i < args_.size(); ++i) args_[i].value->index = static_cast<int>(i);
}

Value* Func::find_arg(std::string_view name) const {
  const auto found = arg_named_.find(name);
  return found == arg_named_.end() ? nullptr : found->second;
}

Op* Func::insert(OpList::iterator where, OpKind kind, std::vector<Value*> operands, AttrList attrs,
                 std::vector<Type> types, const std::string& name) {
  auto op = std::make_unique<Op>();
  op->kind = kind;
  op->attrs = std::move(attrs);
  op->operands = std::move(operands);
  op->func = this;
  for (Value* operand : op->operands) operand->users.push_back(op.get());
  for (std::size_t i = 0; i < types.size(); ++i) {
    auto value = std::make_unique<Value>();
    value->name = unique_name(name);
    value->type = std::move(types[i]);
    value->def = op.get();
    value->index = static_cast<int>(i);
    op->results.push_back(std::move(value));
  }
  const auto place = ops_.insert(where, std::move(op));
  (*place)->place = place;
  return place->get();
}

void Func::erase(Op* op) {
  for (const auto& result : op->results) {
    TESSERA_CHECK(!has_uses(result.get()), "erasing %", result->name, " which is in use");
    names_.erase(result->name);
  }
  for (Value* operand : op->operands) {
    operand->users.erase(std::ranges::find(operand->users, op));
  }
  ops_.erase(op->place);
}

void Func::move_before(Op* op, OpList::iterator where) { ops_.splice(where, ops_, op->place); }

void Func::set_operand(Op* op, std::size_t i, Value* value) {
  Value* old = op->operands[i];
  old->users.erase(std::ranges::find(old->users, op));
  value->users.push_back(op);
  op->operands[i] = value;
}

void Func::replace_all_uses(Value* old, Value* replacement) {
  if (old == replacement) return;
  const std::vector<Op*> users = old->users;
  for (Op* user : users) {
    for (std::size_t i = 0; i < user->operands.size(); ++i) {
      if (user->operands[i] == old) set_operand(user, i, replacement);
    }
  }
  for (FuncResult& result : results) {
    if (result.value == old) result.value = replacement;
  }
}

bool Func::is_result(const Value* value) const {
  return std::ranges::any_of(results,
                             [&](const FuncResult& result) { return result.value == value; });
}

bool Func::has_uses(const Value* value) const { return !value->users.empty() || is_result(value); }

bool Func::erase_unused_ops() {
  bool changed = false;
  for (auto it = ops_.end(); it != ops_.begin();) {  // from the end: one sweep suffices
    Op* op = (--it)->get();
    const bool used = std::ranges::any_of(
        op->results, [&](const auto& result) { return has_uses(result.get()); });
    if (used) continue;
    it = std::next(it);
    erase(op);
    changed = true;
  }
  return changed;
}

std::string Func::unique_name(const std::string& base) {
  const std::string stem = base.empty() ? "v" : base;
  std::string candidate = stem;
  if (names_.contains(candidate)) {
    int& suffix = next_suffix_[stem];
    do {
      candidate = str(stem, ".", ++suffix);
    } while (names_.contains(candidate));
  }
  names_.insert(candidate);
  return candidate;
}

void Func::rename(Value* value, const std::string& base) {
  names_.erase(value->name);
  const bool is_arg = arg_named_.erase(value->name) > 0;
  value->name = unique_name(base);
  if (is_arg) arg_named_[value->name] = value;
}

Value* Func::find_value(std::string_view name) const {
  if (Value* arg = find_arg(name)) return arg;
  for (const auto& op : ops_) {
    for (const auto& result : op->results) {
      if (result->name == name) return result.get();
    }
  }
  return nullptr;
}

Func* Module::add_func(const std::string& name) {
  TESSERA_CHECK(find(name) == nullptr, "function @", name, " exists");
  funcs_.push_back(std::make_unique<Func>(name));
  return funcs_.back().get();
}

void Module::erase_func(Func* func) {
  std::erase_if(funcs_, [&](const auto& owned) { return owned.get() == func; });
}

Func* Module::find(std::string_view name) const {
  for (const auto& func : funcs_) {
    if (func->name() == name) return func.get();
  }
  return nullptr;
}

std::string Module::add_constant(const Tensor& tensor) {
  std::uint64_t hash =
      14695981039346656037ull;  // FNV-1a over dtype, shape and bytes; equality is checked below
  const auto mix = [&](std::uint64_t byte) { hash = (hash ^ byte) * 1099511628211ull; };
  mix(static_cast<std::uint64_t>(tensor.dtype()));
  for (std::int64_t size : tensor.shape()) mix(static_cast<std::uint64_t>(size) + 0x9e37u);
  std::size_t at = 0;
  constexpr std::size_t kLarge = 4096, kWord = sizeof(std::uint64_t);  // masks of whole sequences
  for (; tensor.bytes() > kLarge && at + kWord <= tensor.bytes(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, tensor.data() + at, kWord);
    mix(word);
    hash ^= hash >> 29;  // a word's upper bits reach the lower ones
  }
  for (; at < tensor.bytes(); ++at) mix(static_cast<std::uint64_t>(tensor.data()[at]));
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string key = "c";
  for (int shift = 60; shift >= 28; shift -= 4) key += kHex[(hash >> shift) & 15];
  for (std::string candidate = key;; candidate += "x") {
    const auto found = constants.find(candidate);
    if (found == constants.end()) {
      constants.emplace(candidate, tensor);
      return candidate;
    }
    if (found->second.same_as(tensor)) return candidate;
  }
}

std::string sanitised_name(std::string_view name) {
  std::string result;
  for (char c : name) {
    const bool fine = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (fine) {
      result += c;
    } else if (!result.empty() && result.back() != '.') {
      result += '.';
    }
  }
  while (!result.empty() && result.back() == '.') result.pop_back();
  return result.empty() ? "v" : result;
}

}  // namespace tessera
