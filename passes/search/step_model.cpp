#include "passes/search/step_model.h"

#include <algorithm>

#include "ir/base/text.h"
#include "ir/copy.h"
#include "passes/cost/op_cost.h"
#include "passes/search/model_data.h"
#include "passes/search/pricing.h"

namespace tessera {

StepModel::StepModel(const Module& module, const Machine& machine)
    : trains_(module.find("micro") != nullptr) {
  const auto data = std::make_shared<ModelData>();
  data_ = data;
  TESSERA_CHECK(module.micro_batches == 1, "the model takes a module of one micro-batch");
  data->machine = machine;
  ModuleScanner scanner(*data);
  const Layout whole(module);
  data->batch = std::max<std::int64_t>(whole.batch.size, 1);
  scanner.scan(module, whole, Recompute::None);
  for (const Recompute mode : {Recompute::Selective, Recompute::Block}) {
    if (!trains_) break;
    Module variant = copy_of(module);
    PassContext context;
    context.options.recompute = mode;
    recompute_activations(variant, context);
    scanner.scan(variant, Layout(variant), mode);
  }
}

StepModel::~StepModel() = default;
StepModel::StepModel(StepModel&&) noexcept = default;

StepModel StepModel::view() const {
  StepModel same;
  same.data_ = data_;
  same.trains_ = trains_;
  return same;
}

Pricing& StepModel::pricing(const Choice& choice) const {
  if (!last_ || !last_->serves(choice)) last_ = std::make_unique<Pricing>(*data_, choice);
  return *last_;
}

Estimate StepModel::estimate(const Choice& choice) const {
  return pricing(choice).estimate(choice);
}
double StepModel::memory(const Choice& choice) const { return pricing(choice).memory(choice); }
double StepModel::state_memory(const Choice& choice) const {
  return pricing(choice).state_memory(choice);
}
double StepModel::seconds(const Choice& choice) const { return pricing(choice).seconds(choice); }
std::int64_t StepModel::batch() const { return data_->batch; }

double StepModel::lower_bound(int devices) const {
  const Grid one;
  double seconds = 0, best = 0;
  for (const auto& [size, share] : data_->machine.device.gemm.points) best = std::max(best, share);
  for (const DistinctOp& op : data_->ops) {
    std::vector<const Type*> operands, results;
    for (const int kind : op.operands) {
      if (kind >= 0) operands.push_back(&data_->kinds[static_cast<std::size_t>(kind)].type);
    }
    for (const int kind : op.results)
      results.push_back(&data_->kinds[static_cast<std::size_t>(kind)].type);
    const OpView view{op.kind, &op.attrs, operands, results};
    const bool counts = family(op.kind) == OpFamily::Contraction || op.kind == OpKind::Attention ||
                        op.kind == OpKind::AttentionGrad;
    if (!counts || operands.size() < 2) continue;
    const Work work = work_of(view, one);
    seconds += op.count[0] * work.flops / (data_->machine.peak(work.dtype) * devices);
  }
  return seconds / best;
}

}  // namespace tessera
