// Prices all ops of a model for one grid, layout and number of micro-batches; recompute, gathering
// and ZeRO-1 then only choose counts. Internal to passes/search.
#pragma once
#include <memory>
#include <optional>
#include <set>

#include "passes/search/choice.h"
#include "passes/search/model_data.h"
#include "passes/search/step_model.h"

namespace tessera {

class Pricing {
 public:
  Pricing(const ModelData& data, const Choice& choice);

  bool serves(const Choice& choice) const;  // same grid, layout and micro-batches
  double memory(const Choice& choice);
  double state_memory(const Choice& choice);  // the part that no number of micro-batches saves
  double seconds(const Choice& choice);
  Estimate estimate(const Choice& choice);

 private:
  struct Collective {
    OpKind kind;
    Axes over;
    double seconds;
  };
  using Collectives = std::vector<Collective>;
  // One op, once. Operands that no earlier op has brought to the need are paid for by it.
  struct Price {
    double compute = 0;
    std::vector<Collectives> operands;
    Collectives results;
  };
  // Types of one op: how it needs its operands and what it makes.
  struct Shape {
    std::vector<Type> operands, results;
    LoopAxes loops;
  };

  Axes own_axes(const Role& role) const;
  Axes spare_axes(const Role& role) const;
  Type home(const ValueKind& kind, bool zero1) const;
  const Type& at(int kind, bool zero1) const {
    return homes_[zero1 ? 1 : 0][static_cast<std::size_t>(kind)];
  }
  double bytes(const Type& type) const {
    return static_cast<double>(largest_local_bytes(type, grid_));
  }

  Shape shape_of(const DistinctOp& op, bool zero1) const;
  Shape follower_shape(const DistinctOp& op, bool zero1) const;
  using Prices = std::vector<std::shared_ptr<const Price>>;
  const Prices& prices(bool zero1);
  Price price(const DistinctOp& op, bool zero1) const;
  double compute(const DistinctOp& op, const Shape& shape) const;
  void reshard(const Type& from, const Type& to, Collectives& into) const;
  void collective(OpKind kind, const Axes& over, double size, Collectives& into) const;
  double accumulation() const;
  template <class Visit>
  void each(const Choice& choice, Visit visit);
  double peak(const Choice& choice);
  double communicators(bool zero1);
  double stored(Storage storage, bool zero1) const;
  bool refines() const;

  const ModelData& data_;
  Choice choice_;
  const Grid& grid_;  // choice_'s
  Axes batch_, y_, x_;
  AxisId data_axis_ = -1;
  bool zero1_matters_ = false;
  std::vector<Type> homes_[2];  // by zero1
  std::optional<Prices> prices_[2];
  std::optional<double> communicators_[2];          // by zero1
  std::optional<double> peaks_[kVariants][2];       // by recompute and regather
  std::vector<Shape> shapes_;                       // without ZeRO-1, by op
  std::vector<std::vector<double>> version_bytes_;  // by op and operand; 0: it is read as it lies
};

}  // namespace tessera
