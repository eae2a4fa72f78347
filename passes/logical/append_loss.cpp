// Adds the loss and splits the module for training:
//
//   func @forward(%ids, %w) { ... return %logits as "logits" }
//       =>   func @prepare(%labels: i64[N, b, s] input, %label.count: f32[] state, ...) counts the
//       labels that matter
//            func @micro(%ids, %labels: i64[b, s] input, %w, %label.count state, %loss state) { ...
//            updates %loss }
//
// The mean runs over the labels that count in the whole step: all ranks, all micro-batches. If none
// counts, the loss and its gradients are 0. With `--loss output:NAME` the graph's own scalar is the
// loss, averaged over micro-batches.
#include <algorithm>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/builder.h"
#include "passes/pass.h"

namespace tessera {
namespace {

constexpr std::int64_t kIgnored = -100;
constexpr std::string_view kOutputPrefix = "output:";

std::string output_names(const Func& func) {
  return join(func.results, ", ", [](const FuncResult& result) { return in_quotes(result.name); });
}

Value* find_output(const Func& func, const std::string& name, const char* flag) {
  for (const FuncResult& result : func.results) {
    if (result.name == name) return result.value;
  }
  throw CompileError(flag, str("the graph has no output ", in_quotes(name)),
                     {str("outputs: ", output_names(func))});
}

Value* find_logits(const Func& func, const PassOptions& options) {
  if (!options.logits.empty()) return find_output(func, options.logits, "--logits");
  std::vector<Value*> candidates;
  for (const FuncResult& result : func.results) {
    if (is_float(result.value->type.dtype) && result.value->type.rank() >= 2)
      candidates.push_back(result.value);
  }
  if (candidates.size() != 1) {
    throw CompileError("--logits", str(candidates.size(), " outputs could be the logits; name one"),
                       {str("outputs: ", output_names(func))});
  }
  return candidates[0];
}

// @prepare counts labels that are not ignored, at least 1 so that a step without labels has loss 0
// and not 0/0.
void add_prepare(Module& module, const Shape& labels_shape, const std::string& labels,
                 DType dtype) {
  Func& prepare = *module.add_func("prepare");
  Shape stacked = labels_shape;
  stacked.insert(stacked.begin(), module.micro_batches);
  Value* input = prepare.add_arg(labels, Type(DType::I64, stacked), ArgKind::Input);
  prepare.add_arg("label.count", Type(dtype, {}), ArgKind::State);
  Builder b(module, prepare);
  Value* counts = b.cast(
      b.emit(OpKind::NotEqual, {input, b.fill_like(static_cast<double>(kIgnored), input)}), dtype);
  Ints dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(stacked.size()); ++d) dims.push_back(d);
  Value* count = b.reduce_sum(counts, dims);
  prepare.results.push_back(
      {b.emit(OpKind::Max, {count, b.fill_like(1.0, count)}), "label.count", true});
}

Value* cross_entropy_loss(Module& module, Func& micro, const PassOptions& options) {
  Value* logits = find_logits(micro, options);
  Shape rows = logits->type.shape;
  rows.pop_back();
  if (micro.find_arg(options.labels) != nullptr) {
    throw CompileError("--labels",
                       str("the graph has an input ", in_quotes(options.labels), " already"));
  }
  Value* labels = micro.add_arg(options.labels, Type(DType::I64, rows), ArgKind::Input);
  Value* count = micro.add_arg("label.count", Type(logits->type.dtype, {}), ArgKind::State);
  add_prepare(module, rows, labels->name, logits->type.dtype);
  module.notes["labels"] = labels->name;
  module.notes["classes"] = str(logits->type.shape.back());
  Builder b(module, micro);
  b.set_name("loss");
  Value* per_row = b.emit_all(OpKind::CrossEntropy, {logits, labels}, {{"ignore", kIgnored}})[0];
  Ints dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rows.size()); ++d) dims.push_back(d);
  return b.div(b.reduce_sum(per_row, dims), count);
}

Value* graph_loss(Module& module, Func& micro, const std::string& name) {
  Value* loss = find_output(micro, name, "--loss");
  if (elements(loss->type.shape) != 1 || !is_float(loss->type.dtype)) {
    throw CompileError("--loss", str("output ", in_quotes(name), " is ",
                                     to_text(loss->type, module.grid), ", not a float scalar"));
  }
  Builder b(module, micro);
  b.set_name("loss");
  module.add_func("prepare");
  return b.scale(b.reshape(loss, {}), 1.0 / static_cast<double>(module.micro_batches));
}

}  // namespace

bool append_loss(Module& module, PassContext& context) {
  Func* micro = module.find("forward");
  if (micro == nullptr) throw CompileError("", "append_loss needs a module with @forward");
  micro->set_name("micro");
  module.micro_batches = context.options.micro_batches;
  const std::string& kind = context.options.loss;
  Value* loss = nullptr;
  if (kind == "cross_entropy") {
    loss = cross_entropy_loss(module, *micro, context.options);
  } else if (kind.starts_with(kOutputPrefix)) {
    loss = graph_loss(module, *micro, kind.substr(kOutputPrefix.size()));
  } else {
    throw CompileError("--loss", str("unknown loss ", in_quotes(kind)),
                       {"known: cross_entropy, output:NAME"});
  }
  micro->results.clear();  // logits have no reader in training
  Value* state = micro->add_arg("loss", loss->type, ArgKind::State);
  Builder b(module, *micro);
  if (module.micro_batches > 1) {
    loss = b.add(state, loss);
    Func& prepare = *module.find("prepare");
    prepare.add_arg(state->name, state->type, ArgKind::State);
    Builder clear(module, prepare);
    prepare.results.push_back({clear.fill(0, state->type.dtype, {}), state->name, true});
  }
  micro->results.push_back({loss, state->name, true});
  module.notes["loss"] = state->name;
  return true;
}

}  // namespace tessera
