// The 4D algorithm for the grid that the user names (arXiv 2305.13525), read off the graph's
// dimension classes:
//
//   batch           over data, then z
//   linear layers   contraction over x and output over y, or the reverse: a two-colouring of the
//   feature classes, so
//                   that the output of one layer is cut as the next one reads it
//   heads           the output split of the projection; with grouped heads y is refined into y.0
//   (groups), y.1 (queries) vocabulary      over y and x together: the head gathers hidden and
//   never all-reduces logits parameters      as their layer reads them, matrices once more over z
//
// Arguments get their sharded types and contractions their loops; propagate_shardings does the
// rest.
#include <algorithm>
#include <set>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "passes/pass.h"
#include "passes/sharded/loop_assignment.h"

namespace tessera {
namespace {

enum class Color : std::uint8_t { X, Y };
Color other(Color color) { return color == Color::X ? Color::Y : Color::X; }

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

// A contraction of an activation with a parameter.
struct Linear {
  Op* op = nullptr;
  IndexMap map;
  std::size_t weight = 1;           // operand index of the parameter
  std::vector<ClassId> contracted;  // in both operands, not in the result
  std::vector<ClassId> output;      // in the parameter and the result only
};

class Chooser {
 public:
  Chooser(Module& module, PassContext& context)
      : module_(module), context_(context), func_(*body_of(module)), classes_(module) {
    for (AxisId axis = 0; axis < module.grid.axis_count(); ++axis) {
      if (module.grid.size(axis) > 1) role(module.grid.name(axis)).push_back(axis);
    }
  }

  void run() {
    find_batch();
    find_heads();
    find_vocabulary();
    color_layers();
    refine_axes();
    for (const auto& [id, color] : colors_) assign_color(id, color);
    assign_contractions();
    type_arguments();
  }

 private:
  Axes& role(const std::string& name) {
    if (name == "data" || name == "z") return batch_axes_;
    if (name == "y") return y_;
    if (name == "x") return x_;
    throw CompileError("--grid", str("axis ", name, " has no role in the 4D algorithm"),
                       {"axes are data, z, y and x"});
  }

  // The leading dimension of the inputs.
  void find_batch() {
    const Value* primary =
        func_.find_arg(module_.notes.contains("labels") ? module_.notes.at("labels") : "");
    for (const Arg& arg : func_.args()) {
      if (primary == nullptr && arg.kind == ArgKind::Input && arg.value->type.rank() >= 1)
        primary = arg.value.get();
    }
    if (primary == nullptr || primary->type.rank() == 0) return;
    batch_size_ = primary->type.shape[0];
    for (const Arg& arg : func_.args()) {
      const bool same = arg.kind == ArgKind::Input && arg.value->type.rank() >= 1 &&
                        arg.value->type.shape[0] == batch_size_;
      if (same && !classes_.is_whole(classes_.of(arg.value.get(), 0)))
        batch_.insert(classes_.of(arg.value.get(), 0));
    }
    for (ClassId id : batch_) axes_[id] = batch_axes_;
  }

  void find_heads() {
    for (const auto& op : func_.ops()) {
      if (op->kind != OpKind::Attention) continue;
      const IndexMap map = index_map(*op);
      const ClassId groups = classes_.of_loop(*op, map, 'g');
      const ClassId queries = classes_.of_loop(*op, map, 'r');
      heads_[groups] = {groups, queries};
      heads_[queries] = {groups, queries};
    }
  }

  // Looked-up dimensions of large tables, the classes of a cross entropy, and untied heads whose
  // logits only leave.
  void find_vocabulary() {
    for (const auto& op : func_.ops()) {
      if (op->kind == OpKind::CrossEntropy)
        vocabulary_.insert(classes_.of(op->operand(0), op->operand(0)->type.rank() - 1));
      if (op->kind == OpKind::Gather && param_behind(func_, op->operand(0)) != nullptr) {
        const auto dim = static_cast<std::size_t>(op->attrs.integer("dim"));
        const Shape& table = op->operand(0)->type.shape;
        if (table.size() == 2 && table[dim] >= table[1 - dim])
          vocabulary_.insert(classes_.of(op->operand(0), dim));
      }
      if (const auto linear = as_linear(*op);
          linear && linear->output.size() == 1 && op->result()->users.empty()) {
        vocabulary_.insert(linear->output[0]);
      }
    }
    for (auto it = vocabulary_.begin(); it != vocabulary_.end();) {
      const bool unfit = classes_.is_whole(*it) || batch_.contains(*it);
      it = unfit ? vocabulary_.erase(it) : std::next(it);
    }
    for (ClassId id : vocabulary_) axes_[id] = concatenated(y_, x_);
  }

  std::optional<Linear> as_linear(Op& op) const {
    if (op.kind != OpKind::Einsum || op.operands.size() != 2) return std::nullopt;
    for (std::size_t w : {std::size_t{1}, std::size_t{0}}) {
      if (param_behind(func_, op.operand(w)) == nullptr ||
          param_behind(func_, op.operand(1 - w)) != nullptr)
        continue;
      Linear linear{&op, index_map(op), w, {}, {}};
      const std::string& input = linear.map.operands[1 - w];
      const std::string& result = linear.map.results[0];
      for (char loop : linear.map.operands[w]) {
        const ClassId id = classes_.of_loop(op, linear.map, loop);
        const bool in_input = input.find(loop) != std::string::npos;
        const bool in_result = result.find(loop) != std::string::npos;
        if (classes_.is_whole(id) || batch_.contains(id)) continue;
        if (in_input && !in_result) linear.contracted.push_back(id);
        if (!in_input && in_result) linear.output.push_back(id);
      }
      return linear;
    }
    return std::nullopt;
  }

  std::optional<Color> color_of(const std::vector<ClassId>& ids) const {
    for (ClassId id : ids) {
      const auto found = colors_.find(id);
      if (found != colors_.end()) return found->second;
    }
    return std::nullopt;
  }

  // Colours the class that best takes a cut: heads if there are any, else the largest.
  void paint(const std::vector<ClassId>& ids, Color color) {
    ClassId best = -1;
    for (ClassId id : ids) {
      if (vocabulary_.contains(id) || classes_.size(id) <= 1) continue;
      if (heads_.contains(id)) {
        colors_[heads_.at(id).first] = color;
        colors_[heads_.at(id).second] = color;
        return;
      }
      if (best < 0 || classes_.size(id) > classes_.size(best)) best = id;
    }
    if (best >= 0) colors_[best] = color;
  }

  void color_layers() {
    for (const auto& op : func_.ops()) {
      const auto linear = as_linear(*op);
      if (!linear) continue;
      const auto outputs_vocabulary =
          std::ranges::any_of(linear->output, [&](ClassId id) { return vocabulary_.contains(id); });
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

  // Part f of `parts` for the groups, the rest for the queries of a group, so that the largest
  // piece is smallest.
  static int group_parts(std::int64_t groups, std::int64_t queries, int parts) {
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

  // y=4 -> y.0=2, y.1=2 where two groups of two queries each need it.
  void refine_axes() {
    for (const auto& [id, pair] : heads_) {
      const auto color = colors_.find(id);
      if (color == colors_.end()) continue;
      Axes& axes = color->second == Color::X ? x_ : y_;
      if (axes.size() != 1) continue;
      const int parts = module_.grid.size(axes);
      const int f = group_parts(classes_.size(pair.first), classes_.size(pair.second), parts);
      if (f != 1 && f != parts) refine(axes[0], f);
    }
  }

  void refine(AxisId axis, int major) {
    std::vector<GridAxis> axes = module_.grid.axes();
    const GridAxis old = axes[static_cast<std::size_t>(axis)];
    context_.remark(str("grid: axis ", old.name, "=", old.size, " is refined into ", old.name,
                        ".0=", major, ", ", old.name, ".1=", old.size / major,
                        ", for heads in groups"));
    axes[static_cast<std::size_t>(axis)] = {old.name + ".0", major};
    axes.insert(axes.begin() + axis + 1, {old.name + ".1", old.size / major});
    module_.grid = Grid(std::move(axes));
    const auto renumber = [&](Axes& list) {
      Axes renumbered;
      for (AxisId id : list) {
        renumbered.push_back(id > axis ? id + 1 : id);
        if (id == axis) renumbered.push_back(axis + 1);
      }
      list = renumbered;
    };
    for (Axes* list : {&batch_axes_, &y_, &x_}) renumber(*list);
    for (auto& [id, list] : axes_) renumber(list);
  }

  void assign_color(ClassId id, Color color) {
    const Axes& axes = color == Color::X ? x_ : y_;
    const auto heads = heads_.find(id);
    if (heads == heads_.end()) {
      axes_[id] = axes;
      return;
    }
    const auto [groups, queries] = heads->second;
    const int f =
        group_parts(classes_.size(groups), classes_.size(queries), module_.grid.size(axes));
    std::size_t taken = 0;
    for (int product = 1; taken < axes.size() && product < f; ++taken)
      product *= module_.grid.size(axes[taken]);
    const auto split = axes.begin() + static_cast<std::ptrdiff_t>(taken);
    axes_[id] = id == groups ? Axes(axes.begin(), split) : Axes(split, axes.end());
  }

  // Both dimensions of a matrix are of one class (a dense layer inside the residual stream): the
  // second one takes the other colour, so that the matrix is still cut both ways.
  void cut_second_dimension(const Op& op, const IndexMap& map, LoopAxes& loops) const {
    if (op.kind != OpKind::Einsum || map.operands.size() != 2) return;
    Axes used;
    for (const auto& [loop, axes] : loops) used = concatenated(std::move(used), axes);
    const std::string order = map.results[0] + map.loops();
    for (char loop : order) {
      if (loops.contains(loop) || map.is_whole(loop)) continue;
      const ClassId id = classes_.of_loop(op, map, loop);
      const auto color = colors_.find(id);
      if (color == colors_.end() || heads_.contains(id)) continue;
      const bool taken_by_own_class = std::ranges::any_of(
          loops, [&](const auto& item) { return classes_.of_loop(op, map, item.first) == id; });
      const Axes& spare = color->second == Color::X ? y_ : x_;
      if (!taken_by_own_class || intersects(used, spare) || spare.empty()) continue;
      loops[loop] = spare;
      used = concatenated(std::move(used), spare);
    }
  }

  void assign_contractions() {
    for (const auto& op : func_.ops()) {
      const bool matters = family(op->kind) == OpFamily::Contraction ||
                           op->kind == OpKind::Gather || op->kind == OpKind::ScatterAdd ||
                           op->kind == OpKind::Attention || op->kind == OpKind::AttentionGrad ||
                           op->kind == OpKind::CrossEntropy || op->kind == OpKind::CrossEntropyGrad;
      if (!matters) continue;
      const IndexMap map = index_map(*op);
      LoopAxes loops = assign_loops(*op, map, classes_, axes_);
      cut_second_dimension(*op, map, loops);
      op->loops = std::move(loops);
    }
  }

  // z cuts the outermost dimension that it divides, else the one that it divides least unevenly.
  void cut_over_z(Type& type) const {
    const AxisId z = module_.grid.find("z");
    if (z < 0 || module_.grid.size(z) == 1 || type.rank() < 2) return;
    std::size_t best = 0;
    double best_waste = 0;
    for (std::size_t d = 0; d < type.rank(); ++d) {
      const std::int64_t local = largest_local_size(type.shape[d], type.cuts[d], module_.grid);
      const std::int64_t parts = module_.grid.size(z);
      const double waste = static_cast<double>((local + parts - 1) / parts * parts) /
                           static_cast<double>(std::max<std::int64_t>(local, 1));
      if (d == 0 || waste < best_waste) {
        best = d;
        best_waste = waste;
      }
    }
    type.cuts[best].push_back(z);
  }

  Type param_type(const Value* param) const {
    Type type = param->type.logical();
    for (const Op* user : param->users) {
      if (!user->loops || family(user->kind) == OpFamily::Normalization) continue;
      const IndexMap map = index_map(*user);
      const auto at = static_cast<std::size_t>(std::ranges::find(user->operands, param) -
                                               user->operands.begin());
      type.cuts = cuts_of(map.operands[at], *user->loops);
      cut_over_z(type);
      return type;
    }
    Axes used;
    for (std::size_t d = 0; d < type.rank(); ++d) {
      const auto found = axes_.find(classes_.of(param, d));
      if (found == axes_.end() || intersects(used, found->second) || batch_.contains(found->first))
        continue;
      type.cuts[d] = found->second;
      used = concatenated(std::move(used), found->second);
    }
    cut_over_z(type);
    return type;
  }

  void type_arguments() {
    std::map<std::string, Type> states;
    for (const Arg& arg : func_.args()) {
      if (arg.kind == ArgKind::Param) states[arg.value->name] = param_type(arg.value.get());
    }
    for (const auto& func : module_.funcs()) {
      for (Arg& arg : func->args()) type_argument(*func, arg, states);
    }
  }

  void type_argument(const Func& func, Arg& arg, const std::map<std::string, Type>& states) const {
    Type& type = arg.value->type;
    if (arg.kind == ArgKind::Input) {
      const bool stacked =
          func.name() == "prepare" && type.rank() >= 2;  // [micro-batch, batch, ...]
      const std::size_t dim = stacked ? 1 : 0;
      if (type.rank() > dim && type.shape[dim] == batch_size_ &&
          (stacked || batch_.contains(classes_.of(arg.value.get(), 0)))) {
        type.cuts[dim] = batch_axes_;
      }
      return;
    }
    // A parameter's own states (gradient, moments) are called %param.suffix and have its type.
    const std::string& name = arg.value->name;
    auto found = states.find(name);
    const std::size_t dot = name.rfind('.');
    if (found == states.end() && dot != std::string::npos) found = states.find(name.substr(0, dot));
    if (found == states.end() || found->second.shape != type.shape) return;
    type.cuts = found->second.cuts;
    const AxisId data = module_.grid.find("data");
    const bool accumulates = name.ends_with(".grad") && module_.micro_batches > 1;
    if (accumulates && data >= 0 && module_.grid.size(data) > 1)
      type.partial = {ReduceOp::Sum, {data}};
  }

  Module& module_;
  PassContext& context_;
  Func& func_;
  const DimClasses classes_;
  Axes batch_axes_, y_, x_;
  std::int64_t batch_size_ = -1;
  std::set<ClassId> batch_, vocabulary_;
  std::map<ClassId, std::pair<ClassId, ClassId>>
      heads_;  // either class of a pair -> (groups, queries of a group)
  std::map<ClassId, Color> colors_;
  ClassAxes axes_;
};

}  // namespace

bool choose_shardings(Module& module, PassContext& context) {
  if (body_of(module) == nullptr)
    throw CompileError("", "the module has neither @micro nor @forward");
  Chooser(module, context).run();
  return true;
}

}  // namespace tessera
