// What a grid would cost, without compiling for it: the paper's analytical model made general.
// Every op of the logical module is priced with the pieces that the layout gives it, every change
// of sharding by the collectives that would do it. Ops that look the same (kind, attributes, sizes,
// colours of their dimensions) are priced once, so that depth costs nothing.
//
// It stands in for the passes, not beside them: what it ranks first is compiled and replayed
// (codegen/predict_plan.h), and that figure is the one to believe.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "ir/graph.h"
#include "passes/cost/machine.h"

namespace tessera {

struct GridEstimate {
  double seconds = 0;  // of a step
  double compute = 0, communication = 0;
  double memory = 0;  // bytes of a rank: state, the peak of live values, communicators
  std::map<std::string, double> collectives;  // seconds by "all_reduce over x"
};

struct GridModelData;

class GridModel {
 public:
  // `module`: level Logical, with the training step if there is one. Neither is kept.
  GridModel(const Module& module, const Machine& machine);
  ~GridModel();

  // `grid` has the axes data, z, y, x (any of them, each at most once).
  GridEstimate estimate(const Grid& grid) const;
  std::size_t distinct_ops() const;
  std::int64_t batch() const;  // samples of a micro-batch

 private:
  std::unique_ptr<GridModelData> data_;
};

}  // namespace tessera
