#include "passes/search/grid_model.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/base/lexer.h"
#include "ir/base/text.h"
#include "ir/op_def.h"
#include "passes/cost/collective_cost.h"
#include "passes/cost/op_cost.h"
#include "passes/sharded/layout.h"
#include "passes/sharded/loop_assignment.h"
#include "passes/sharded/reshard_path.h"

namespace tessera {
namespace {

// What cuts a dimension: nothing, the batch, one of the two colours, both for a vocabulary, or a
// colour's share of grouped heads.
struct Role {
  enum Kind : std::uint8_t { None, Batch, X, Y, Vocabulary, Groups, Queries } kind = None;
  Color color = Color::X;                // of heads
  std::int64_t groups = 1, queries = 1;  // of heads
  auto operator<=>(const Role&) const = default;
};

// Values of one type whose dimensions have the same roles are priced alike.
struct ValueKind {
  Type type;  // logical
  std::vector<Role> roles;
  bool stored = false;  // a parameter or its state: cut over z as well
};

struct DistinctOp {
  OpKind kind;
  AttrList attrs;
  IndexMap map;
  std::vector<int> operands, results;  // value kinds
  std::vector<char> fresh;  // operands that no earlier op needed in this way: the first reader pays
  std::vector<std::pair<char, Role>> loops;
  bool update = false;  // follows its operands as they are stored
  double count = 0;
};

// Where a value of @micro lives, in positions of its op list.
struct Life {
  int kind = 0;
  int from = 0, to = 0;
};

}  // namespace

struct GridModelData {
  Machine machine;
  std::int64_t micro_batches = 1, batch = 1;
  std::vector<ValueKind> kinds;
  std::vector<DistinctOp> ops;
  std::vector<Life> lives;
  std::vector<std::pair<int, double>> states;  // (value kind, how many)
  int length = 0;                              // ops of @micro
};

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

  int kind_of(const Value* value, bool stored) {
    std::vector<Role> roles;
    std::string key = str(stored, to_text(value->type.logical(), Grid()));
    for (std::size_t d = 0; d < value->type.rank(); ++d) {
      roles.push_back(role_of(layout_.classes.of(value, d)));
      const Role& r = roles.back();
      key += str(' ', static_cast<int>(r.kind), '/', static_cast<int>(r.color), '/', r.groups, '/',
                 r.queries);
    }
    const auto [found, fresh] = kind_ids_.emplace(key, static_cast<int>(data_.kinds.size()));
    if (fresh) data_.kinds.push_back({value->type.logical(), std::move(roles), stored});
    return found->second;
  }

  static bool is_source(const Op* op) {
    return op != nullptr &&
           (op->kind == OpKind::Fill || op->kind == OpKind::Iota || op->kind == OpKind::Constant ||
            (op->kind == OpKind::Broadcast && op->operand(0)->type.rank() == 0));
  }

  void scan(const Func& func) {
    std::unordered_map<const Value*, int> kinds, last;
    for (const Arg& arg : func.args()) {
      const bool stored = arg.kind != ArgKind::Input;
      kinds[arg.value.get()] = kind_of(arg.value.get(), stored);
      if (stored && seen_states_.insert(arg.value->name).second)
        data_.states.emplace_back(kinds[arg.value.get()], 1.0);
    }
    for (const FuncResult& result : func.results) {
      if (result.updates) stored_results_.insert(result.value);
    }
    for (const auto& op : func.ops()) {
      for (const auto& result : op->results)
        kinds[result.get()] =
            kind_of(result.get(), update_ || stored_results_.contains(result.get()));
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
    DistinctOp distinct{op.kind, op.attrs, {}, {}, {}, {}, {}, update_, 0};
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
  std::set<const Value*> stored_results_;
  std::unordered_map<const Value*, std::set<std::string>> needs_;
};

// One grid under evaluation.
class Pricing {
 public:
  Pricing(const GridModelData& data, const Grid& grid) : data_(data), grid_(grid) {
    for (AxisId axis = 0; axis < grid.axis_count(); ++axis) {
      if (grid.size(axis) == 1) continue;
      const std::string& name = grid.name(axis);
      (name == "x" ? x_ : name == "y" ? y_ : batch_).push_back(axis);
    }
    for (const ValueKind& kind : data.kinds) homes_.push_back(home(kind));
  }

  GridEstimate run() {
    for (const DistinctOp& op : data_.ops) price(op);
    estimate_.seconds = estimate_.compute + estimate_.communication;
    for (const auto& [kind, count] : data_.states) estimate_.memory += count * bytes(at(kind));
    estimate_.memory +=
        peak() + data_.machine.device.runtime_bytes +
        data_.machine.device.communicator_bytes * static_cast<double>(communicators_.size());
    return estimate_;
  }

 private:
  const Type& at(int kind) const { return homes_[static_cast<std::size_t>(kind)]; }
  // A parameter is gathered over z for as long as it is read.
  Type in_use(int kind) const {
    Type type = at(kind);
    const AxisId z = grid_.find("z");
    if (!data_.kinds[static_cast<std::size_t>(kind)].stored || z < 0) return type;
    for (Axes& axes : type.cuts) std::erase(axes, z);
    return type;
  }
  double bytes(const Type& type) const {
    return static_cast<double>(largest_local_bytes(type, grid_));
  }

  // Axes are whole here: of grouped heads, the larger share takes a colour's axis.
  Axes axes_of(const Role& role) const {
    const Axes& own = role.color == Color::X ? x_ : y_;
    switch (role.kind) {
      case Role::None:
        return {};
      case Role::Batch:
        return batch_;
      case Role::X:
        return x_;
      case Role::Y:
        return y_;
      case Role::Vocabulary:
        return concatenated(y_, x_);
      case Role::Groups:
      case Role::Queries: {
        const int parts = grid_.size(own);
        const bool groups = 2 * group_parts(role.groups, role.queries, parts) > parts;
        return groups == (role.kind == Role::Groups) ? own : Axes{};
      }
    }
    return {};
  }

  Type home(const ValueKind& kind) const {
    Type type = kind.type;
    std::vector<std::size_t> order(type.rank());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return axes_of(kind.roles[a]).size() > axes_of(kind.roles[b]).size();
    });
    Axes used;
    for (const std::size_t d : order) {
      for (const AxisId axis : axes_of(kind.roles[d])) {
        if (contains(used, axis) || (kind.stored && kind.roles[d].kind == Role::Batch)) break;
        type.cuts[d].push_back(axis);
        used.push_back(axis);
      }
    }
    if (kind.stored) cut_over_z(type, grid_);
    return type;
  }

  void price(const DistinctOp& op) {
    if (op.update) return price_update(op);
    LoopAxes wanted;
    for (const auto& [loop, role] : op.loops) wanted[loop] = axes_of(role);
    const LoopAxes loops = resolve_loops(op.map, wanted);
    std::vector<Type> operands, results;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i] < 0) continue;
      Type need = at(op.operands[i]).logical();
      need.cuts = cuts_of(op.map.operands[i], loops);
      if (op.fresh[i] != 0) reshard(at(op.operands[i]), need, op.count);
      operands.push_back(std::move(need));
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      Type made = at(op.results[i]).logical();
      made.cuts = cuts_of(op.map.results[i], loops);
      for (const auto& [loop, axes] : loops) {
        if (op.map.results[i].find(loop) == std::string::npos)
          made.partial.axes = concatenated(made.partial.axes, axes);
      }
      std::ranges::sort(made.partial.axes);
      const bool norm = family(op.kind) == OpFamily::Normalization;
      if (norm && std::ranges::any_of(
                      loops, [&](const auto& item) { return op.map.is_expandable(item.first); }))
        statistics(op, made, loops);
      if (norm && op.kind != OpKind::AttentionGrad) made.partial = {};
      reshard(made, at(op.results[i]), op.count);
      results.push_back(std::move(made));
    }
    compute(op, operands, results);
  }

  // Row ops over a cut dimension all-reduce a few numbers a row.
  void statistics(const DistinctOp& op, const Type& made, const LoopAxes& loops) {
    Type rows = made;
    Axes over;
    for (const auto& [loop, axes] : loops) {
      if (op.map.is_expandable(loop)) over = concatenated(over, axes);
    }
    if (made.rank() > 0 && made.cuts.back() == over) {
      rows.shape.pop_back();
      rows.cuts.pop_back();
    }
    rows.partial = {};
    constexpr double kReductions = 1;  // a result each: y, mean and rstd make the two of a norm
    collective(OpKind::AllReduce, over, bytes(rows), kReductions * op.count);
  }

  void price_update(const DistinctOp& op) {
    std::vector<Type> operands, results;
    for (const int kind : op.operands) {
      if (kind >= 0) operands.push_back(at(kind));
    }
    for (const int kind : op.results) results.push_back(at(kind));
    compute(op, operands, results);
  }

  // A chain of elementwise ops is one loop: it pays for what it leaves behind.
  void compute(const DistinctOp& op, const std::vector<Type>& operands,
               const std::vector<Type>& results) {
    std::vector<const Type*> in, out;
    for (const Type& type : operands) in.push_back(&type);
    for (const Type& type : results) out.push_back(&type);
    double seconds = 0;
    if (family(op.kind) == OpFamily::Elementwise) {
      for (const Type& type : results)
        seconds += bytes(type) / data_.machine.device.memory_bandwidth;
    } else {
      seconds = op_seconds(data_.machine, grid_, {op.kind, &op.attrs, in, out});
    }
    estimate_.compute += op.count * seconds;
  }

  void reshard(const Type& from, const Type& to, double count) {
    if (from == to) return;
    Type at = from;
    for (const ReshardMove& move : cheapest_reshard(from, to, grid_).moves) {
      if (communicates(move.kind))
        collective(move.kind, move.over, bytes(move.kind == OpKind::AllGather ? move.result : at),
                   count);
      at = move.result;
    }
  }

  void collective(OpKind kind, const Axes& over, double size, double count) {
    if (over.empty()) return;
    communicators_.insert(over);
    estimate_.communication +=
        count * collective_cost(data_.machine, grid_, kind, over, size).seconds;
  }

  // The most that values of @micro hold at once, as they lie at home.
  double peak() const {
    std::vector<double> change(static_cast<std::size_t>(data_.length) + 2, 0.0);
    for (const Life& life : data_.lives) {
      const double held = bytes(in_use(life.kind));
      change[static_cast<std::size_t>(life.from)] += held;
      change[static_cast<std::size_t>(life.to) + 1] -= held;
    }
    double now = 0, most = 0;
    for (const double step : change) {
      now += step;
      most = std::max(most, now);
    }
    return most;
  }

  const GridModelData& data_;
  const Grid& grid_;
  Axes batch_, y_, x_;
  std::vector<Type> homes_;
  std::set<Axes> communicators_;
  GridEstimate estimate_;
};

}  // namespace

GridModel::GridModel(const Module& module, const Machine& machine)
    : data_(std::make_unique<GridModelData>()) {
  const Layout layout(module);
  data_->machine = machine;
  data_->micro_batches = module.micro_batches;
  data_->batch = layout.batch_size;
  Scanner(module, layout, *data_).run();
}

GridModel::~GridModel() = default;

GridEstimate GridModel::estimate(const Grid& grid) const { return Pricing(*data_, grid).run(); }
std::size_t GridModel::distinct_ops() const { return data_->ops.size(); }
std::int64_t GridModel::batch() const { return data_->batch; }

}  // namespace tessera
