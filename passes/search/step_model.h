// What a choice would cost, without compiling for it: the paper's analytical model made general.
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
#include "passes/search/choice.h"

namespace tessera {

struct Estimate {
  double seconds = 0;  // of a step
  double compute = 0, communication = 0;
  double memory = 0;  // bytes of a rank: state, the peak of live values, communicators
  std::map<std::string, double> components;   // of memory, named as codegen/predict_plan.h does
  std::map<std::string, double> collectives;  // seconds by "all_reduce over x"
};

struct ModelData;
class Pricing;

class StepModel {
 public:
  // `module`: level Logical, one micro-batch that is the whole batch, before recompute, with the
  // training step if there is one. It is not kept.
  StepModel(const Module& module, const Machine& machine);
  ~StepModel();
  StepModel(StepModel&&) noexcept;
  StepModel view() const;  // the same model, for another thread

  Estimate estimate(const Choice& choice) const;
  // Cheaper: the estimates differ only in recompute, regather and zero1 from the last call's.
  double memory(const Choice& choice) const;
  double state_memory(const Choice& choice) const;  // without activations
  double seconds(const Choice& choice) const;

  std::int64_t batch() const;  // samples of a step; 1 for a model without a batch
  bool trains() const { return trains_; }
  // No plan of this module on `devices` of the machine is faster: every contraction cut evenly and
  // at the best efficiency, nothing repeated, nothing sent.
  double lower_bound(int devices) const;

 private:
  Pricing& pricing(const Choice& choice) const;

  StepModel() = default;

  std::shared_ptr<const ModelData> data_;
  bool trains_ = false;
  mutable std::unique_ptr<Pricing> last_;
};

}  // namespace tessera
