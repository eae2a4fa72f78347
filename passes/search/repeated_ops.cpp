#include "passes/search/repeated_ops.h"

#include <algorithm>
#include <map>

#include "ir/base/lexer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr int kReach = 3;

class Refinement {
 public:
  Refinement(const Func& func, const Grid& grid) : func_(func), grid_(grid) {
    for (const FuncResult& result : func.results) {
      if (result.value->def != nullptr) leaves_[result.value->def] += result.updates ? 2 : 1;
    }
  }

  std::unordered_map<const Op*, int> run() {
    for (const auto& op : func_.ops()) now_[op.get()] = id(own_text(*op));
    for (int round = 0; round < kReach; ++round) {
      std::unordered_map<const Op*, int> next;
      for (const auto& op : func_.ops()) next[op.get()] = id(surroundings(*op));
      now_ = std::move(next);
    }
    return std::move(now_);
  }

 private:
  int type_id(const Type& type) { return id(to_text(type, grid_)); }

  std::string own_text(const Op& op) {
    std::string text(mnemonic(op.kind));
    // Layers draw other random numbers and have tables of their own, which changes no cost.
    if (family(op.kind) != OpFamily::Source) text += attrs_text(op.attrs, op.kind, grid_);
    if (op.loops) {
      for (const auto& [loop, axes] : *op.loops) text += str(' ', loop, ':', grid_.text(axes));
    }
    for (const Value* operand : op.operands)
      text += str(operand->def == nullptr ? " arg " : " ", type_id(operand->type));
    for (const auto& result : op.results) text += str(" > ", type_id(result->type));
    const auto leaves = leaves_.find(&op);
    return leaves == leaves_.end() ? text : str(text, " leaves ", leaves->second);
  }

  // The op and its neighbours on both sides, as they were told apart so far.
  std::vector<int> surroundings(const Op& op) {
    std::vector<int> found{now_.at(&op)};
    for (const Value* operand : op.operands)
      found.push_back(operand->def == nullptr ? -1 : now_.at(operand->def));
    std::vector<int> users;
    for (const auto& result : op.results) {
      users.clear();
      for (const Op* user : result->users) {
        const auto at = std::ranges::find(user->operands, result.get()) - user->operands.begin();
        users.push_back(id(std::vector{now_.at(user), static_cast<int>(at)}));
      }
      std::ranges::sort(users);
      found.push_back(-2);
      found.insert(found.end(), users.begin(), users.end());
    }
    return found;
  }

  int id(const std::string& text) { return numbered(texts_, text); }
  int id(const std::vector<int>& list) { return numbered(lists_, list); }
  template <class Key>
  int numbered(std::map<Key, int>& known, const Key& key) {
    return known.try_emplace(key, static_cast<int>(texts_.size() + lists_.size())).first->second;
  }

  const Func& func_;
  const Grid& grid_;
  std::map<std::string, int> texts_;
  std::map<std::vector<int>, int> lists_;
  std::unordered_map<const Op*, int> leaves_;
  std::unordered_map<const Op*, int> now_;
};

}  // namespace

std::unordered_map<const Op*, int> repeated_ops(const Func& func, const Grid& grid) {
  return Refinement(func, grid).run();
}

}  // namespace tessera
