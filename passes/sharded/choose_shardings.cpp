// The 4D algorithm for the module's grid (arXiv 2305.13525),
// with the layout that passes/sharded/layout.h describes; with grouped heads y is refined into y.0
// (groups) and y.1 (queries). Parameters are cut as their layer reads them, matrices once more over
// z.
//
// Arguments get their sharded types and contractions their loops; propagate_shardings does the
// rest.
#include <algorithm>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "passes/pass.h"
#include "passes/sharded/layout.h"
#include "passes/sharded/loop_assignment.h"
#include "passes/sharded/pins.h"

namespace tessera {
namespace {

class Chooser {
 public:
  Chooser(Module& module, PassContext& context)
      : module_(module), context_(context), func_(*body_of(module)), layout_(module) {
    for (AxisId axis = 0; axis < module.grid.axis_count(); ++axis) {
      if (module.grid.size(axis) > 1) role(module.grid.name(axis)).push_back(axis);
    }
  }

  void run() {
    refine_axes();
    for (const ClassId id : layout_.batch.classes) axes_[id] = batch_axes_;
    for (const ClassId id : layout_.vocabulary) axes_[id] = concatenated(y_, x_);
    for (const auto& [id, color] : layout_.colors) assign_color(id, color);
    offer_spare_axes();
    assign_contractions();
    type_arguments();
    if (!spare_.empty()) assign_others();
    apply_pins(context_.options.pins, module_, func_);
    cut_updates();
  }

 private:
  Axes& role(const std::string& name) {
    if (name == "data" || name == "z") return batch_axes_;
    if (name == "y") return y_;
    if (name == "x") return x_;
    throw CompileError("--grid", str("axis ", name, " has no role in the 4D algorithm"),
                       {"axes are data, z, y and x"});
  }

  // y=4 -> y.0=2, y.1=2 where two groups of two queries each need it.
  void refine_axes() {
    for (const auto& [id, pair] : layout_.heads) {
      const auto color = layout_.colors.find(id);
      if (color == layout_.colors.end()) continue;
      Axes& axes = color->second == Color::X ? x_ : y_;
      if (axes.size() != 1) continue;
      const int parts = module_.grid.size(axes);
      const int f =
          group_parts(layout_.classes.size(pair.first), layout_.classes.size(pair.second), parts);
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
  }

  void assign_color(ClassId id, Color color) {
    const Axes& axes = color == Color::X ? x_ : y_;
    const auto heads = layout_.heads.find(id);
    if (heads == layout_.heads.end()) {
      axes_[id] = axes;
      return;
    }
    const auto [groups, queries] = heads->second;
    const int f = group_parts(layout_.classes.size(groups), layout_.classes.size(queries),
                              module_.grid.size(axes));
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
      const ClassId id = layout_.classes.of_loop(op, map, loop);
      const auto color = layout_.colors.find(id);
      if (color == layout_.colors.end() || layout_.heads.contains(id)) continue;
      const bool taken_by_own_class = std::ranges::any_of(loops, [&](const auto& item) {
        return layout_.classes.of_loop(op, map, item.first) == id;
      });
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
      LoopAxes loops = assign_loops(*op, map, layout_.classes, axes_, spare_);
      cut_second_dimension(*op, map, loops);
      op->loops = std::move(loops);
    }
  }

  // Axes that a class takes where an op leaves them unused.
  void offer_spare_axes() {
    if (context_.options.scatter_tokens && !y_.empty()) {
      for (const ClassId id : layout_.batch.tokens) {
        if (!axes_.contains(id)) spare_[id] = y_;
      }
    }
    if (!context_.options.scatter_features || x_.empty()) return;
    for (const auto& [id, color] : layout_.colors) {
      if (color == Color::Y &&
          layout_.takes_spare(id, module_.grid.size(y_), module_.grid.size(x_)))
        spare_[id] = x_;
    }
  }

  // With spare axes elementwise ops and norms do not always follow the majority.
  void assign_others() {
    for (const auto& op : func_.ops()) {
      if (op->loops || accumulates_state(func_, *op)) continue;
      op->loops = assign_loops(*op, index_map(*op), layout_.classes, axes_, spare_);
    }
  }

  Type param_type(const Value* param) const {
    Type type = param->type.logical();
    for (const Op* user : param->users) {
      if (!user->loops || family(user->kind) == OpFamily::Normalization) continue;
      const IndexMap map = index_map(*user);
      const auto at = static_cast<std::size_t>(std::ranges::find(user->operands, param) -
                                               user->operands.begin());
      type.cuts = cuts_of(map.operands[at], *user->loops);
      cut_over_z(type, module_.grid);
      return type;
    }
    Axes used;
    for (std::size_t d = 0; d < type.rank(); ++d) {
      const auto found = axes_.find(layout_.classes.of(param, d));
      if (found == axes_.end() || intersects(used, found->second) ||
          layout_.batch.classes.contains(found->first))
        continue;
      type.cuts[d] = found->second;
      used = concatenated(std::move(used), found->second);
    }
    cut_over_z(type, module_.grid);
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

  // @prepare's labels are those of all micro-batches: [micro-batch, batch, ...].
  std::optional<std::size_t> batch_dim_of(const Func& func, const Value& input) const {
    const bool stacked = func.name() == "prepare" && input.type.rank() >= 2;
    const std::size_t dim = stacked ? 1 : batch_dim(module_, input.name);
    const std::int64_t parts = stacked ? sub_batches(module_, input.name) : 1;
    if (input.type.rank() <= dim || input.type.shape[dim] != layout_.batch.size * parts) return {};
    if (!stacked && !layout_.batch.classes.contains(layout_.classes.of(&input, dim))) return {};
    return dim;
  }

  void type_argument(const Func& func, Arg& arg, const std::map<std::string, Type>& states) const {
    Type& type = arg.value->type;
    if (arg.kind == ArgKind::Input) {
      if (const auto dim = batch_dim_of(func, *arg.value)) type.cuts[*dim] = batch_axes_;
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
    if (data < 0 || module_.grid.size(data) == 1) return;
    const bool accumulates = name.ends_with(".grad") && module_.micro_batches > 1;
    if (accumulates) type.partial = {ReduceOp::Sum, {data}};
    if (!accumulates && context_.options.zero1 && arg.kind == ArgKind::State)
      cut_over(type, module_.grid, data);
  }

  // ZeRO-1: what reads a gradient works on the part whose optimizer state it holds, so that
  // gradients are reduce-scattered over data, and new parameters gathered.
  void cut_updates() {
    const AxisId data = module_.grid.find("data");
    Func* update = module_.find("update");
    if (!context_.options.zero1 || update == nullptr || data < 0 || module_.grid.size(data) == 1)
      return;
    for (const auto& op : update->ops()) {
      for (std::size_t i = 0; i < op->operands.size() && !op->loops; ++i) {
        const Value* grad = op->operand(i);
        if (grad->def != nullptr || !grad->name.ends_with(".grad")) continue;
        Type part = grad->type;
        if (!part.partial.axes.empty()) cut_over(part, module_.grid, data);
        const IndexMap map = index_map(*op);
        LoopAxes loops;
        for (std::size_t d = 0; d < part.rank(); ++d) {
          if (!part.cuts[d].empty()) loops[map.operands[i][d]] = part.cuts[d];
        }
        op->loops = std::move(loops);
      }
    }
  }

  Module& module_;
  PassContext& context_;
  Func& func_;
  const Layout layout_;
  Axes batch_axes_, y_, x_;
  ClassAxes axes_, spare_;
};

}  // namespace

bool choose_shardings(Module& module, PassContext& context) {
  if (body_of(module) == nullptr)
    throw CompileError("", "the module has neither @micro nor @forward");
  Chooser(module, context).run();
  return true;
}

}  // namespace tessera
