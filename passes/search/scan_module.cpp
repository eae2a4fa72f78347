#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/base/lexer.h"
#include "ir/base/text.h"
#include "passes/search/model_data.h"
#include "passes/sharded/step_parts.h"

namespace tessera {
namespace {

Storage storage_of(const Arg& arg) {
  if (arg.kind == ArgKind::Input) return Storage::Activation;
  if (arg.kind == ArgKind::Param) return Storage::Param;
  return arg.value->name.ends_with(".grad") ? Storage::Gradient : Storage::Optimizer;
}

// How an op needs an operand: which loops it must have whole, and which others compete for axes.
std::string need_of(const std::vector<std::pair<char, Role>>& loops, const IndexMap& map,
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

}  // namespace

// One function of one variant while it is scanned.
struct ModuleScanner::FuncScan {
  const Module& module;
  const Layout& layout;
  const Func& func;
  std::size_t variant = 0;
  bool update = false, micro = false;
  const Op* loss = nullptr;
  bool backward = false;
  std::unordered_map<const Value*, int> kinds;
  std::set<const Value*> joining;  // operands of an addition of gradients, but the first
  // By value and need: version of the whole pass (0), of the forward (1) and the backward one (2).
  std::unordered_map<const Value*, std::map<std::string, std::array<int, 3>>> needs;
};

Role ModuleScanner::role_of(const Layout& layout, ClassId id) const {
  if (layout.batch.classes.contains(id)) return {Role::Batch};
  if (layout.vocabulary.contains(id)) return {Role::Vocabulary};
  const auto color = layout.colors.find(id);
  if (color == layout.colors.end()) {
    return layout.batch.tokens.contains(id) ? Role{Role::Tokens} : Role{};
  }
  const auto heads = layout.heads.find(id);
  if (heads == layout.heads.end()) return {color->second == Color::X ? Role::X : Role::Y};
  const auto [groups, queries] = heads->second;
  return {id == groups ? Role::Groups : Role::Queries, color->second, layout.classes.size(groups),
          layout.classes.size(queries)};
}

int ModuleScanner::kind_of(const Layout& layout, const Value* value, Storage storage) {
  std::vector<Role> roles;
  std::string key = str(static_cast<int>(storage), to_text(value->type.logical(), Grid()));
  for (std::size_t d = 0; d < value->type.rank(); ++d) {
    roles.push_back(role_of(layout, layout.classes.of(value, d)));
    const Role& r = roles.back();
    key += str(' ', static_cast<int>(r.kind), '/', static_cast<int>(r.color), '/', r.groups, '/',
               r.queries);
  }
  const auto [found, fresh] = kind_ids_.emplace(key, static_cast<int>(data_.kinds.size()));
  if (fresh) data_.kinds.push_back({value->type.logical(), std::move(roles), storage});
  return found->second;
}

void ModuleScanner::add(FuncScan& scan, const Op& op, int position) {
  const IndexMap map = index_map(op);
  std::vector<std::pair<char, Role>> loops;
  const auto visit = [&](const std::string& term, const Value* value) {
    for (std::size_t d = 0; d < term.size(); ++d) {
      if (std::ranges::find(loops, term[d], &std::pair<char, Role>::first) == loops.end())
        loops.emplace_back(term[d],
                           data_.kinds[static_cast<std::size_t>(scan.kinds.at(value))].roles[d]);
    }
  };
  for (std::size_t i = 0; i < map.operands.size(); ++i) visit(map.operands[i], op.operands[i]);
  for (std::size_t i = 0; i < map.results.size(); ++i) visit(map.results[i], op.result(i));
  DistinctOp distinct{op.kind, op.attrs, {}, {}, {}, {}, {}, scan.update, scan.micro, false, {}};
  distinct.attrs.erase(kRecomputed);
  distinct.joins = scan.joining.contains(op.result());
  const int made = scan.kinds.at(op.result());
  if (op.kind == OpKind::Add &&
      data_.kinds[static_cast<std::size_t>(made)].storage == Storage::Gradient)
    distinct.follows = true;
  std::string key = str(static_cast<int>(op.kind), scan.update, scan.micro, distinct.joins,
                        attrs_text(distinct.attrs, op.kind, Grid()));
  std::vector<std::array<int, 3>*> lives;  // of the versions that are read
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Value* operand = op.operand(i);
    const bool source = is_source(operand->def) || scan.joining.contains(operand);
    distinct.operands.push_back(source ? -1 : scan.kinds.at(operand));
    auto& needs = scan.needs[operand];
    const auto [found, fresh] = needs.try_emplace(need_of(loops, map, i), std::array{-1, -1, -1});
    const std::size_t pass = scan.backward ? 2 : 1;
    const bool fresh_in_pass = found->second[pass] < 0;
    distinct.fresh.push_back(
        static_cast<std::uint8_t>((fresh ? kKeep : 0) | (fresh_in_pass ? kRegather : 0)));
    lives.push_back(source ? nullptr : &found->second);
    key += str(' ', distinct.operands.back(), '+', static_cast<int>(distinct.fresh.back()));
  }
  for (const auto& result : op.results) {
    distinct.results.push_back(scan.kinds.at(result.get()));
    key += str('>', distinct.results.back());
  }
  const auto [found, fresh] = op_ids_.emplace(key, static_cast<int>(data_.ops.size()));
  if (fresh) {
    distinct.map = map;
    distinct.loops = loops;
    data_.ops.push_back(std::move(distinct));
  }
  DistinctOp& known = data_.ops[static_cast<std::size_t>(found->second)];
  known.count[scan.variant] += 1;
  if (!scan.micro) return;
  std::vector<VersionLife>& versions = data_.versions[scan.variant];
  for (std::size_t i = 0; i < lives.size(); ++i) {
    for (const std::size_t pass :
         {std::size_t{0}, scan.backward ? std::size_t{2} : std::size_t{1}}) {
      if (lives[i] == nullptr) continue;
      int& life = (*lives[i])[pass];
      if (life < 0) {
        life = static_cast<int>(versions.size());
        versions.push_back({found->second, static_cast<int>(i), position, position,
                            pass == 0 ? kKeep : kRegather});
      }
      versions[static_cast<std::size_t>(life)].to = position;
    }
  }
}

void ModuleScanner::scan_func(FuncScan& scan) {
  for (const Arg& arg : scan.func.args()) {
    const int kind = kind_of(scan.layout, arg.value.get(), storage_of(arg));
    scan.kinds[arg.value.get()] = kind;
    if (arg.kind == ArgKind::Input || !states_seen_.insert(arg.value->name).second) continue;
    const auto known = std::ranges::find(data_.states, kind, &std::pair<int, double>::first);
    if (known == data_.states.end()) {
      data_.states.emplace_back(kind, 1.0);
    } else {
      known->second += 1;
    }
  }
  std::map<const Value*, Storage> stored;
  for (const FuncResult& result : scan.func.results) {
    if (!result.updates) continue;
    stored[result.value] = storage_of(scan.func.arg_of(scan.func.find_arg(result.name)));
    const Op* def = result.value->def;
    if (def == nullptr || def->kind != OpKind::Add || !scan.micro) continue;
    stored[def->operand(0)] = Storage::Gradient;  // reduced once, with what is added to it
    scan.joining.insert(def->operand(1));
  }
  for (const auto& op : scan.func.ops()) {
    for (const auto& result : op->results) {
      const auto found = stored.find(result.get());
      const Storage own = scan.update ? Storage::Optimizer : Storage::Activation;
      scan.kinds[result.get()] =
          kind_of(scan.layout, result.get(), found == stored.end() ? own : found->second);
    }
  }
  int at = 0;
  std::unordered_map<const Value*, std::pair<int, int>> lives;
  for (const auto& op : scan.func.ops()) {
    ++at;
    if (is_source(op.get())) continue;
    add(scan, *op, at);
    for (const auto& result : op->results) lives[result.get()] = {at, at};
    for (const Value* operand : op->operands) {
      const auto found = lives.find(operand);
      if (found != lives.end()) found->second.second = at;
    }
    scan.backward = scan.backward || op.get() == scan.loss;
  }
  if (!scan.micro) return;
  data_.length[scan.variant] = at;
  for (const auto& [value, life] : lives)
    data_.lives[scan.variant].push_back({scan.kinds.at(value), life.first, life.second});
}

void ModuleScanner::scan(const Module& module, const Layout& layout, Recompute variant) {
  for (const auto& func : module.funcs()) {
    FuncScan scan{module, layout, *func, variant_of(variant), false, false, nullptr, false,
                  {},     {},     {}};
    scan.update = func->name() == "update";
    scan.micro = func.get() == body_of(module);
    if (scan.micro) scan.loss = last_forward_op(module, *func);
    scan_func(scan);
  }
}

}  // namespace tessera
