#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/base/lexer.h"
#include "ir/base/text.h"
#include "passes/search/grid_model_data.h"

namespace tessera {
namespace {

class Scanner {
 public:
  Scanner(const Module& module, const Layout& layout, GridModelData& data)
      : module_(module), layout_(layout), data_(data) {}

  void run() {
    for (const auto& func : module_.funcs()) {
      update_ = func->name() == "update";
      micro_ = func.get() == body_of(module_);
      times_ = micro_ ? static_cast<double>(module_.micro_batches) : 1.0;
      scan(*func);
    }
  }

 private:
  Role role_of(ClassId id) const {
    if (layout_.batch.contains(id)) return {Role::Batch};
    if (layout_.vocabulary.contains(id)) return {Role::Vocabulary};
    const auto color = layout_.colors.find(id);
    if (color == layout_.colors.end()) return {};
    const auto heads = layout_.heads.find(id);
    if (heads == layout_.heads.end()) return {color->second == Color::X ? Role::X : Role::Y};
    const auto [groups, queries] = heads->second;
    return {id == groups ? Role::Groups : Role::Queries, color->second,
            layout_.classes.size(groups), layout_.classes.size(queries)};
  }

  int kind_of(const Value* value, bool stored, bool accumulated) {
    std::vector<Role> roles;
    std::string key = str(stored, accumulated, to_text(value->type.logical(), Grid()));
    for (std::size_t d = 0; d < value->type.rank(); ++d) {
      roles.push_back(role_of(layout_.classes.of(value, d)));
      const Role& r = roles.back();
      key += str(' ', static_cast<int>(r.kind), '/', static_cast<int>(r.color), '/', r.groups, '/',
                 r.queries);
    }
    const auto [found, fresh] = kind_ids_.emplace(key, static_cast<int>(data_.kinds.size()));
    if (fresh)
      data_.kinds.push_back({value->type.logical(), std::move(roles), stored, accumulated});
    return found->second;
  }

  static bool is_source(const Op* op) {
    return op != nullptr &&
           (op->kind == OpKind::Fill || op->kind == OpKind::Iota || op->kind == OpKind::Constant ||
            (op->kind == OpKind::Broadcast && op->operand(0)->type.rank() == 0));
  }

  bool accumulates(const Arg& arg) const {
    return arg.kind == ArgKind::State && module_.micro_batches > 1 &&
           arg.value->name.ends_with(".grad");
  }

  void scan(const Func& func) {
    std::unordered_map<const Value*, int> kinds, last;
    for (const Arg& arg : func.args()) {
      const bool stored = arg.kind != ArgKind::Input;
      kinds[arg.value.get()] = kind_of(arg.value.get(), stored, accumulates(arg));
      if (stored && seen_states_.insert(arg.value->name).second)
        data_.states.emplace_back(kinds[arg.value.get()], 1.0);
    }
    std::set<const Value*> stored, accumulated;
    for (const FuncResult& result : func.results) {
      if (!result.updates) continue;
      const bool sums = accumulates(func.arg_of(func.find_arg(result.name)));
      std::set<const Value*>& group = sums ? accumulated : stored;
      group.insert(result.value);
      // What is added to an accumulator is brought to its type first.
      if (result.value->def != nullptr && result.value->def->kind == OpKind::Add)
        group.insert(result.value->def->operands.begin(), result.value->def->operands.end());
    }
    for (const auto& op : func.ops()) {
      for (const auto& result : op->results) {
        const bool sums = accumulated.contains(result.get());
        kinds[result.get()] =
            kind_of(result.get(), sums || update_ || stored.contains(result.get()), sums);
      }
    }
    int at = 0;
    std::unordered_map<const Value*, int> born;
    for (const auto& op : func.ops()) {
      ++at;
      if (is_source(op.get())) continue;
      add(*op, kinds);
      for (const auto& result : op->results) born[result.get()] = last[result.get()] = at;
      for (const Value* operand : op->operands) {
        born.try_emplace(operand, at);  // an argument is gathered where it is needed first
        last[operand] = at;
      }
    }
    if (!micro_) return;
    data_.length = at;
    for (const auto& [value, from] : born) {
      if (!is_source(value->def)) data_.lives.push_back({kinds.at(value), from, last.at(value)});
    }
  }

  std::vector<std::pair<char, Role>> loops_of(
      const Op& op, const IndexMap& map, const std::unordered_map<const Value*, int>& kinds) const {
    std::vector<std::pair<char, Role>> loops;
    const auto visit = [&](const std::string& term, const Value* value) {
      for (std::size_t d = 0; d < term.size(); ++d) {
        const auto known = std::ranges::find(loops, term[d], &std::pair<char, Role>::first);
        const auto kind = kinds.find(value);
        if (known == loops.end() && kind != kinds.end())
          loops.emplace_back(term[d], data_.kinds[static_cast<std::size_t>(kind->second)].roles[d]);
      }
    };
    for (std::size_t i = 0; i < map.operands.size(); ++i) visit(map.operands[i], op.operands[i]);
    for (std::size_t i = 0; i < map.results.size(); ++i) visit(map.results[i], op.result(i));
    return loops;
  }

  // How an op needs an operand: which loops it must have whole, and which others compete for axes.
  static std::string need_of(const std::vector<std::pair<char, Role>>& loops, const IndexMap& map,
                             std::size_t operand) {
    std::set<int> others;
    std::string need;
    for (const auto& [loop, role] : loops) {
      const std::size_t at = map.operands[operand].find(loop);
      if (at == std::string::npos) others.insert(static_cast<int>(role.kind));
      if (at != std::string::npos && map.is_whole(loop)) need += str(at, ' ');
    }
    return str(need, '|', join(others, ","));
  }

  void add(const Op& op, const std::unordered_map<const Value*, int>& kinds) {
    const IndexMap map = index_map(op);
    const std::vector<std::pair<char, Role>> loops = loops_of(op, map, kinds);
    const bool stored = data_.kinds[static_cast<std::size_t>(kinds.at(op.result()))].stored;
    const bool follows = update_ || (stored && op.kind == OpKind::Add);
    DistinctOp distinct{op.kind, op.attrs, {}, {}, {}, {}, {}, follows, 0};
    std::string key =
        str(static_cast<int>(op.kind), update_, micro_, attrs_text(op.attrs, op.kind, Grid()));
    for (const Value* operand : op.operands) {
      distinct.operands.push_back(is_source(operand->def) ? -1 : kinds.at(operand));
      const bool fresh = needs_[operand].insert(need_of(loops, map, distinct.fresh.size())).second;
      distinct.fresh.push_back(fresh ? 1 : 0);
      key += str(' ', distinct.operands.back(), fresh ? '+' : '-');
    }
    for (const auto& result : op.results) {
      distinct.results.push_back(kinds.at(result.get()));
      key += str('>', distinct.results.back());
    }
    const auto [found, fresh] = op_ids_.emplace(key, static_cast<int>(data_.ops.size()));
    if (fresh) {
      distinct.map = map;
      distinct.loops = loops;
      data_.ops.push_back(std::move(distinct));
    }
    data_.ops[static_cast<std::size_t>(found->second)].count += times_;
  }

  const Module& module_;
  const Layout& layout_;
  GridModelData& data_;
  bool update_ = false, micro_ = false;
  double times_ = 1;
  std::map<std::string, int> kind_ids_, op_ids_;
  std::set<std::string> seen_states_;
  std::unordered_map<const Value*, std::set<std::string>> needs_;
};

}  // namespace

void scan_module(const Module& module, const Layout& layout, GridModelData& data) {
  Scanner(module, layout, data).run();
}

}  // namespace tessera
