#include "passes/sharded/layout.h"

#include <algorithm>
#include <cstdlib>

#include "ir/base/text.h"

namespace tessera {

Func* body_of(const Module& module) {
  for (const char* name : {"micro", "forward"}) {
    if (Func* func = module.find(name)) return func;
  }
  return nullptr;
}

// Parameters are read directly, or through movement that was not absorbed.
const Value* param_behind(const Func& func, const Value* value) {
  while (value->def != nullptr && family(value->def->kind) == OpFamily::Movement &&
         value->def->operands.size() == 1) {
    value = value->def->operand(0);
  }
  return value->def == nullptr && func.arg_of(value).kind == ArgKind::Param ? value : nullptr;
}

std::int64_t sub_batches(const Module& module, const std::string& input) {
  const auto note = module.notes.find(str(kSubBatchesNote, input));
  return note == module.notes.end() ? 1 : std::atoll(note->second.c_str());
}

std::size_t batch_dim(const Module& module, const std::string& input) {
  return sub_batches(module, input) > 1 ? 1 : 0;
}

Batch find_batch(const Module& module, const DimClasses& classes) {
  const Func& func = *body_of(module);
  Batch batch;
  const Value* primary =
      func.find_arg(module.notes.contains("labels") ? module.notes.at("labels") : "");
  for (const Arg& arg : func.args()) {
    if (primary == nullptr && arg.kind == ArgKind::Input && arg.value->type.rank() >= 1)
      primary = arg.value.get();
  }
  if (primary == nullptr || primary->type.rank() == 0) return batch;
  batch.size = primary->type.shape[batch_dim(module, primary->name)];
  for (const Arg& arg : func.args()) {
    const Value* input = arg.value.get();
    const std::size_t dim = batch_dim(module, input->name);
    const bool same = arg.kind == ArgKind::Input && input->type.rank() > dim &&
                      input->type.shape[dim] == batch.size;
    if (!same || classes.is_whole(classes.of(input, dim))) continue;
    batch.classes.insert(classes.of(input, dim));
    if (input->type.rank() > dim + 1 && input->type.shape[dim + 1] > 1)
      batch.tokens.insert(classes.of(input, dim + 1));
  }
  return batch;
}

Layout::Layout(const Module& module)
    : classes(module), batch(find_batch(module, classes)), func_(*body_of(module)) {
  find_heads();
  find_vocabulary();
  color_layers();
}

void Layout::find_heads() {
  for (const auto& op : func_.ops()) {
    if (op->kind != OpKind::Attention) continue;
    const IndexMap map = index_map(*op);
    const ClassId groups = classes.of_loop(*op, map, 'g');
    const ClassId queries = classes.of_loop(*op, map, 'r');
    heads[groups] = {groups, queries};
    heads[queries] = {groups, queries};
  }
}

// Looked-up dimensions of large tables, the classes of a cross entropy, and untied heads whose
// logits only leave.
void Layout::find_vocabulary() {
  for (const auto& op : func_.ops()) {
    if (op->kind == OpKind::CrossEntropy)
      vocabulary.insert(classes.of(op->operand(0), op->operand(0)->type.rank() - 1));
    if (op->kind == OpKind::Gather && param_behind(func_, op->operand(0)) != nullptr) {
      const auto dim = static_cast<std::size_t>(op->attrs.integer("dim"));
      const Shape& table = op->operand(0)->type.shape;
      if (table.size() == 2 && table[dim] >= table[1 - dim])
        vocabulary.insert(classes.of(op->operand(0), dim));
    }
    if (const auto linear = as_linear(*op);
        linear && linear->output.size() == 1 && op->result()->users.empty()) {
      vocabulary.insert(linear->output[0]);
    }
  }
  for (auto it = vocabulary.begin(); it != vocabulary.end();) {
    const bool unfit = classes.is_whole(*it) || batch.classes.contains(*it);
    it = unfit ? vocabulary.erase(it) : std::next(it);
  }
}

std::optional<Linear> Layout::as_linear(Op& op) const {
  if (op.kind != OpKind::Einsum || op.operands.size() != 2) return std::nullopt;
  for (std::size_t w : {std::size_t{1}, std::size_t{0}}) {
    if (param_behind(func_, op.operand(w)) == nullptr ||
        param_behind(func_, op.operand(1 - w)) != nullptr)
      continue;
    Linear linear{&op, index_map(op), w, {}, {}};
    const std::string& input = linear.map.operands[1 - w];
    const std::string& result = linear.map.results[0];
    for (char loop : linear.map.operands[w]) {
      const ClassId id = classes.of_loop(op, linear.map, loop);
      const bool in_input = input.find(loop) != std::string::npos;
      const bool in_result = result.find(loop) != std::string::npos;
      if (classes.is_whole(id) || batch.classes.contains(id)) continue;
      if (in_input && !in_result) linear.contracted.push_back(id);
      if (!in_input && in_result) linear.output.push_back(id);
    }
    return linear;
  }
  return std::nullopt;
}

std::optional<Color> Layout::color_of(const std::vector<ClassId>& ids) const {
  for (ClassId id : ids) {
    const auto found = colors.find(id);
    if (found != colors.end()) return found->second;
  }
  return std::nullopt;
}

// Colours the class that best takes a cut: heads if there are any, else the largest.
void Layout::paint(const std::vector<ClassId>& ids, Color color) {
  ClassId best = -1;
  for (ClassId id : ids) {
    if (vocabulary.contains(id) || classes.size(id) <= 1) continue;
    if (heads.contains(id)) {
      colors[heads.at(id).first] = color;
      colors[heads.at(id).second] = color;
      return;
    }
    if (best < 0 || classes.size(id) > classes.size(best)) best = id;
  }
  if (best >= 0) colors[best] = color;
}

void Layout::color_layers() {
  for (const auto& op : func_.ops()) {
    const auto linear = as_linear(*op);
    if (!linear) continue;
    const auto outputs_vocabulary =
        std::ranges::any_of(linear->output, [&](ClassId id) { return vocabulary.contains(id); });
    if (outputs_vocabulary) continue;
    std::optional<Color> in = color_of(linear->contracted);
    const std::optional<Color> out = color_of(linear->output);
    if (!in) {
      in = out ? other(*out) : Color::X;
      paint(linear->contracted, *in);
    }
    if (!out) paint(linear->output, other(*in));
  }
}

bool spare_cuts_groups(std::int64_t groups, std::int64_t queries, int parts, int more) {
  const int f = group_parts(groups, queries, parts);
  const auto pieces = [](std::int64_t size, std::int64_t count) {
    return (size + count - 1) / count;
  };
  const std::int64_t by_groups =
      pieces(groups, std::int64_t{f} * more) * pieces(queries, parts / f);
  const std::int64_t by_queries =
      pieces(groups, f) * pieces(queries, std::int64_t{parts} / f * more);
  return by_groups <= by_queries;
}

bool Layout::takes_spare(ClassId id, int parts, int more) const {
  const auto found = heads.find(id);
  if (found == heads.end()) return true;
  const auto [groups, queries] = found->second;
  return (id == groups) ==
         spare_cuts_groups(classes.size(groups), classes.size(queries), parts, more);
}

bool accumulates_state(const Func& func, const Op& op) {
  return std::ranges::any_of(op.operands, [&](const Value* operand) {
    return operand->def == nullptr && func.arg_of(operand).kind == ArgKind::State &&
           operand->type.shape == op.results[0]->type.shape;
  });
}

int group_parts(std::int64_t groups, std::int64_t queries, int parts) {
  const auto pieces = [](std::int64_t size, int count) { return (size + count - 1) / count; };
  int best = parts;
  for (int f = parts; f >= 1; --f) {
    if (parts % f != 0) continue;
    if (pieces(groups, f) * pieces(queries, parts / f) <
        pieces(groups, best) * pieces(queries, parts / best))
      best = f;
  }
  return best;
}

void cut_over_z(Type& type, const Grid& grid) { cut_over(type, grid, grid.find("z")); }

void cut_over(Type& type, const Grid& grid, AxisId axis) {
  if (axis < 0 || grid.size(axis) == 1 || type.rank() < 2) return;
  std::size_t best = 0;
  double best_waste = 0;
  for (std::size_t d = 0; d < type.rank(); ++d) {
    const std::int64_t local = largest_local_size(type.shape[d], type.cuts[d], grid);
    const std::int64_t parts = grid.size(axis);
    const std::int64_t padded = (local + parts - 1) / parts * parts;
    const double waste =
        static_cast<double>(padded) / static_cast<double>(std::max<std::int64_t>(local, 1));
    if (d == 0 || waste < best_waste) {
      best = d;
      best_waste = waste;
    }
  }
  type.cuts[best].push_back(axis);
}

}  // namespace tessera
