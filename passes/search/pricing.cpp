#include "passes/search/pricing.h"

#include <algorithm>

#include "ir/base/text.h"
#include "passes/cost/collective_cost.h"
#include "passes/cost/op_cost.h"
#include "passes/search/op_types.h"
#include "passes/sharded/reshard_path.h"

namespace tessera {

Pricing::Pricing(const ModelData& data, const Choice& choice)
    : data_(data), choice_(choice), grid_(choice_.grid) {
  for (AxisId axis = 0; axis < grid_.axis_count(); ++axis) {
    if (grid_.size(axis) == 1) continue;
    const std::string& name = grid_.name(axis);
    (name == "x" ? x_ : name == "y" ? y_ : batch_).push_back(axis);
    if (name == "data") data_axis_ = axis;
  }
  zero1_matters_ = data_axis_ >= 0;
  for (const ValueKind& kind : data.kinds) {
    homes_[0].push_back(home(kind, false));
    if (zero1_matters_) homes_[1].push_back(home(kind, true));
  }
  if (!zero1_matters_) homes_[1] = homes_[0];
  for (const DistinctOp& op : data.ops) {
    version_bytes_.emplace_back(op.operands.size(), 0.0);
    shapes_.push_back(shape_of(op, false));
    if (op.follows || !op.in_micro) continue;
    const Shape& shape = shapes_.back();
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const bool differs = op.operands[i] >= 0 && shape.operands[i] != at(op.operands[i], false);
      if (differs) version_bytes_.back()[i] = bytes(shape.operands[i]);
    }
  }
}

bool Pricing::serves(const Choice& choice) const {
  return choice.grid == choice_.grid && choice.micro_batches == choice_.micro_batches &&
         choice.scatter_tokens == choice_.scatter_tokens &&
         choice.scatter_features == choice_.scatter_features;
}

Pricing::Price Pricing::price(const DistinctOp& op, bool zero1) const {
  Shape shape =
      zero1 ? shape_of(op, true) : shapes_[static_cast<std::size_t>(&op - data_.ops.data())];
  Price price;
  price.compute = compute(op, shape);
  price.operands.resize(op.operands.size());
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i] >= 0 && op.fresh[i] != 0)
      reshard(at(op.operands[i], zero1), shape.operands[i], price.operands[i]);
  }
  const bool norm = !op.follows && family(op.kind) == OpFamily::Normalization;
  for (std::size_t i = 0; i < op.results.size() && !op.joins; ++i) {
    if (norm) {  // about one number a row for each result
      const RowStatistics rows = row_statistics(shape.results[i], op.map, shape.loops);
      collective(OpKind::AllReduce, rows.over, bytes(rows.rows), price.results);
    }
    reshard(shape.results[i], at(op.results[i], zero1), price.results);
  }
  return price;
}

double Pricing::compute(const DistinctOp& op, const Shape& shape) const {
  std::vector<const Type*> in, out;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i] >= 0) in.push_back(&shape.operands[i]);
  }
  for (const Type& type : shape.results) out.push_back(&type);
  return step_op_seconds(data_.machine, grid_, {op.kind, &op.attrs, in, out});
}

void Pricing::reshard(const Type& from, const Type& to, Collectives& into) const {
  each_collective(from, to, grid_, [&](OpKind kind, const Axes& over, double size) {
    collective(kind, over, size, into);
  });
}

void Pricing::collective(OpKind kind, const Axes& over, double size, Collectives& into) const {
  if (over.empty()) return;
  into.push_back({kind, over, collective_cost(data_.machine, grid_, kind, over, size).seconds});
}

const Pricing::Prices& Pricing::prices(bool zero1) {
  zero1 = zero1 && zero1_matters_;
  std::optional<Prices>& known = prices_[zero1 ? 1 : 0];
  if (known) return *known;
  known.emplace();
  for (std::size_t i = 0; i < data_.ops.size(); ++i) {
    const DistinctOp& op = data_.ops[i];
    const auto moved = [&](int kind) { return kind >= 0 && at(kind, false) != at(kind, true); };
    const bool same = zero1 && prices_[0] && std::ranges::none_of(op.operands, moved) &&
                      std::ranges::none_of(op.results, moved);
    known->push_back(same ? (*prices_[0])[i] : std::make_shared<const Price>(price(op, zero1)));
  }
  return *known;
}

// Visits what is paid: (times, compute seconds, collectives).
template <class Visit>
void Pricing::each(const Choice& choice, Visit visit) {
  const std::size_t variant = variant_of(choice.recompute);
  const std::uint8_t mode = choice.regather ? kRegather : kKeep;
  const Prices& known = prices(choice.zero1);
  static const Collectives kNone;
  for (std::size_t i = 0; i < data_.ops.size(); ++i) {
    const DistinctOp& op = data_.ops[i];
    const double times =
        op.count[variant] * (op.in_micro ? static_cast<double>(choice.micro_batches) : 1.0);
    if (times == 0) continue;
    visit(times, known[i]->compute, known[i]->results);
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if ((op.fresh[o] & mode) != 0) visit(times, 0.0, known[i]->operands[o]);
    }
  }
  visit(1, accumulation(), kNone);
}

// With several micro-batches every gradient is added to what came before: read twice, written once.
double Pricing::accumulation() const {
  if (choice_.micro_batches == 1) return 0;
  double total = 0;
  for (const auto& [kind, count] : data_.states) {
    if (data_.kinds[static_cast<std::size_t>(kind)].storage == Storage::Gradient)
      total += 3 * count * bytes(at(kind, false));
  }
  return total * static_cast<double>(choice_.micro_batches) / data_.machine.device.memory_bandwidth;
}

double Pricing::seconds(const Choice& choice) {
  double total = 0;
  each(choice, [&](double times, double compute, const Collectives& collectives) {
    total += times * compute;
    for (const Collective& c : collectives) total += times * c.seconds;
  });
  return total;
}

Estimate Pricing::estimate(const Choice& choice) {
  Estimate result;
  each(choice, [&](double times, double compute, const Collectives& collectives) {
    result.compute += times * compute;
    for (const Collective& c : collectives) {
      result.communication += times * c.seconds;
      result.collectives[str(mnemonic(c.kind), " over ", grid_.text(c.over))] += times * c.seconds;
    }
  });
  result.seconds = result.compute + result.communication;
  result.memory = memory(choice);
  result.components = {
      {"parameters", stored(Storage::Param, choice.zero1)},
      {"gradients", stored(Storage::Gradient, choice.zero1)},
      {"optimizer state", stored(Storage::Optimizer, choice.zero1)},
      {"activations and workspace", result.memory - state_memory(choice)},
      {"communicators", data_.machine.device.communicator_bytes * communicators(choice.zero1)},
      {"runtime", data_.machine.device.runtime_bytes}};
  return result;
}

double Pricing::memory(const Choice& choice) {
  std::optional<double>& known = peaks_[variant_of(choice.recompute)][choice.regather ? 1 : 0];
  if (!known) known = peak(choice);
  return *known + state_memory(choice);
}

double Pricing::stored(Storage storage, bool zero1) const {
  double total = 0;
  for (const auto& [kind, count] : data_.states) {
    if (data_.kinds[static_cast<std::size_t>(kind)].storage == storage)
      total += count * bytes(at(kind, zero1));
  }
  return total;
}

double Pricing::state_memory(const Choice& choice) {
  double total = data_.machine.device.runtime_bytes +
                 data_.machine.device.communicator_bytes * communicators(choice.zero1);
  for (const Storage storage : {Storage::Param, Storage::Gradient, Storage::Optimizer})
    total += stored(storage, choice.zero1);
  return total;
}

// One for each set of axes that some collective is over.
double Pricing::communicators(bool zero1) {
  std::optional<double>& known = communicators_[zero1 ? 1 : 0];
  if (known) return *known;
  std::set<Axes> sets;
  for (const auto& price : prices(zero1)) {
    for (const Collective& c : price->results) sets.insert(c.over);
    for (const Collectives& operand : price->operands) {
      for (const Collective& c : operand) sets.insert(c.over);
    }
  }
  known = static_cast<double>(sets.size()) + (refines() ? 2 : 0);
  return *known;
}

// The most that values of @micro and gathered versions of them hold at once.
double Pricing::peak(const Choice& choice) {
  const std::size_t variant = variant_of(choice.recompute);
  const std::uint8_t mode = choice.regather ? kRegather : kKeep;
  std::vector<double> sizes;
  for (const Type& type : homes_[0]) sizes.push_back(bytes(type));
  std::vector<double> change(static_cast<std::size_t>(data_.length[variant]) + 2, 0.0);
  const auto live = [&](double held, int from, int to) {
    change[static_cast<std::size_t>(from)] += held;
    change[static_cast<std::size_t>(to) + 1] -= held;
  };
  for (const Life& life : data_.lives[variant]) {
    // Gradients of one micro-batch are written to their state.
    if (data_.kinds[static_cast<std::size_t>(life.kind)].storage == Storage::Activation)
      live(sizes[static_cast<std::size_t>(life.kind)], life.from, life.to);
  }
  for (const VersionLife& life : data_.versions[variant]) {
    const double held =
        version_bytes_[static_cast<std::size_t>(life.op)][static_cast<std::size_t>(life.operand)];
    if (held > 0 && (life.modes & mode) != 0) live(held, life.from, life.to);
  }
  double now = 0, most = 0;
  for (const double step : change) {
    now += step;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace tessera
