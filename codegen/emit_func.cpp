#include "codegen/emit_func.h"

#include <algorithm>

#include "codegen/assign_buffers.h"
#include "ir/base/text.h"
#include "ir/step_groups.h"

namespace tessera {

int FuncEmitter::add_value(const std::string& name, const Type& type, int buffer) {
  plan_.values.push_back({name, type, kNoBuffer});
  buffer_of_value_.push_back(buffer);
  return static_cast<int>(plan_.values.size()) - 1;
}

int FuncEmitter::value(const Value* value) { return values_.at(value); }

int FuncEmitter::new_buffer(const Type& type) {
  const int step = static_cast<int>(plan_.steps.size());
  buffers_.push_back({largest_local_bytes(type, module_.grid), step, step, kNoBuffer});
  return static_cast<int>(buffers_.size()) - 1;
}

void FuncEmitter::read(int value_index) {
  const int buffer = buffer_of_value_[static_cast<std::size_t>(value_index)];
  if (buffer >= 0)
    buffers_[static_cast<std::size_t>(buffer)].last = static_cast<int>(plan_.steps.size());
}

void FuncEmitter::add_args() {
  for (const Arg& arg : func_.args()) {
    buffers_.push_back(
        {largest_local_bytes(arg.value->type, module_.grid), -1, 0, args_.at(arg.value->name)});
    const int index =
        add_value(arg.value->name, arg.value->type, static_cast<int>(buffers_.size()) - 1);
    values_[arg.value.get()] = index;
    const ArgRole role = arg.kind == ArgKind::Input   ? ArgRole::Input
                         : arg.kind == ArgKind::Param ? ArgRole::Param
                                                      : ArgRole::State;
    plan_.args.push_back({index, role});
  }
}

// Kernels that read element i before they write element i, and never again.
bool FuncEmitter::in_place(const Op& op) const {
  return family(op.kind) == OpFamily::Elementwise || family(op.kind) == OpFamily::Optimizer;
}

// A result that updates an argument is written straight into its buffer, when nobody reads the old
// content later.
int FuncEmitter::updated_arg_buffer(const Value* result, const Op& writer) {
  const bool begins = writer.attrs.flag(kStarted);  // its wait gives the result
  const auto returned = returned_.find(begins ? result->users[0]->result() : result);
  if (returned == returned_.end()) return -1;
  int count = 0;
  const Value* target = nullptr;
  for (const FuncResult* r : returned->second) {
    if (!r->updates) continue;
    ++count;
    target = func_.find_arg(r->name);
  }
  if (count != 1 || returned_.contains(target)) return -1;
  const int step = static_cast<int>(plan_.steps.size());
  const auto last = last_reader_.find(target);
  const bool read_later = last != last_reader_.end() && last->second > step;
  const bool read_now = last != last_reader_.end() && last->second == step;
  if (read_later || (read_now && !in_place(writer))) return -1;
  return buffer_of_value_[static_cast<std::size_t>(values_.at(target))];
}

int FuncEmitter::result_buffer(const Op& op, const Value* result) {
  const int own = updated_arg_buffer(result, op);
  if (own >= 0) return own;
  // A reshape of a value is that value's buffer, unless the value is persistent and may change
  // under it.
  if (op.kind == OpKind::Reshape) {
    const int source = buffer_of_value_[static_cast<std::size_t>(value(op.operand(0)))];
    if (source >= 0 && buffers_[static_cast<std::size_t>(source)].fixed == kNoBuffer) return source;
  }
  return new_buffer(result->type);
}

int FuncEmitter::comm_of(const Op& op) {
  if (!communicates(op.kind)) return -1;
  const Axes& axes = op.attrs.axes("over");
  const auto found = std::ranges::find(comms_, axes);
  if (found != comms_.end()) return static_cast<int>(found - comms_.begin());
  comms_.push_back(axes);
  return static_cast<int>(comms_.size()) - 1;
}

void FuncEmitter::add_step(const StepGroup& group) {
  const Op& op = *group.ops[0];
  PlanStep step;
  step.kind = op.kind;
  step.attrs = op.attrs;
  step.origin = op.origin;
  step.comm = comm_of(op);
  for (const Value* operand : op.operands) {
    step.operands.push_back(value(operand));
    read(step.operands.back());
  }
  for (const auto& result : op.results) {
    const int buffer = result_buffer(op, result.get());
    const int index = add_value(result->name, result->type, buffer);
    values_[result.get()] = index;
    step.results.push_back(index);
    read(index);
  }
  put_on_stream(op, step);
  if (op.attrs.flag(kStarted)) begun_[op.result()] = static_cast<int>(plan_.steps.size());
  plan_.steps.push_back(std::move(step));
}

// A collective comes after all that was computed before it: then every buffer that is free at this
// place of the list is free for it too.
void FuncEmitter::put_on_stream(const Op& op, PlanStep& step) const {
  if (!overlaps_ || !communicates(op.kind)) return;
  step.stream = module_.grid.text(op.attrs.axes("over"));
  if (last_compute_ >= 0) step.after.push_back(last_compute_);
}

// The buffer that the collective reads is in use until here.
void FuncEmitter::add_wait(const Op& op) {
  const Value* in_flight = op.operand(0);
  PlanStep step;
  step.kind = OpKind::Wait;
  step.origin = op.origin;
  step.after = {begun_.at(in_flight)};
  step.operands = {value(in_flight)};
  read(value(in_flight));
  read(value(in_flight->def->operand(0)));
  const int index = add_value(op.result()->name, op.result()->type,
                              buffer_of_value_[static_cast<std::size_t>(step.operands[0])]);
  values_[op.result()] = index;
  step.results = {index};
  read(index);
  plan_.steps.push_back(std::move(step));
}

void FuncEmitter::add_fused(const StepGroup& group) {
  PlanStep step;
  step.origin = group.ops.back()->origin;
  for (const Value* input : group.inputs) {
    step.operands.push_back(value(input));
    read(step.operands.back());
  }
  for (const Value* output : group.outputs) {
    const int updated = updated_arg_buffer(output, *output->def);
    const int index =
        add_value(output->name, output->type, updated >= 0 ? updated : new_buffer(output->type));
    values_[output] = index;
    step.results.push_back(index);
    read(index);
  }
  std::map<const Value*, int> local;
  for (const Op* op : group.ops) {
    PlanStep inner;
    inner.kind = op->kind;
    inner.attrs = op->attrs;
    for (const Value* operand : op->operands) {
      const auto inside = local.find(operand);
      inner.operands.push_back(inside != local.end() ? inside->second : value(operand));
    }
    const bool leaves = std::ranges::find(group.outputs, op->result()) != group.outputs.end();
    int index = leaves ? value(op->result()) : -1;
    if (!leaves)
      index = add_value(str(op->result()->name, ".t", plan_.values.size()), op->result()->type, -1);
    local[op->result()] = index;
    inner.results = {index};
    step.body.push_back(std::move(inner));
  }
  plan_.steps.push_back(std::move(step));
}

void FuncEmitter::add_steps() {
  const std::vector<StepGroup> groups = group_steps(func_);
  for (std::size_t i = 0; i < groups.size(); ++i) {  // step i comes from group i
    const auto note = [&](const Value* v) {
      if (v->def == nullptr) last_reader_[v] = static_cast<int>(i);
    };
    for (const Op* op : groups[i].ops) {
      for (const Value* operand : op->operands) note(operand);
      if (op->kind == OpKind::Wait) note(op->operand(0)->def->operand(0));
    }
  }
  for (const StepGroup& group : groups) {
    if (group.fused) {
      add_fused(group);
    } else if (group.ops[0]->kind == OpKind::Wait) {
      add_wait(*group.ops[0]);
    } else {
      add_step(group);
    }
    if (plan_.steps.back().stream.empty()) last_compute_ = static_cast<int>(plan_.steps.size()) - 1;
  }
}

// Results that could not be written in place are copied at the end.
void FuncEmitter::add_results() {
  for (const FuncResult& result : func_.results) {
    int index = value(result.value);
    const Value* target = result.updates ? func_.find_arg(result.name) : nullptr;
    const bool elsewhere =
        target != nullptr && buffer_of_value_[static_cast<std::size_t>(index)] !=
                                 buffer_of_value_[static_cast<std::size_t>(value(target))];
    if (elsewhere) {
      PlanStep copy;
      copy.kind = OpKind::Reshape;
      copy.operands = {index};
      read(index);
      index = add_value(str(result.name, ".next"), target->type,
                        buffer_of_value_[static_cast<std::size_t>(value(target))]);
      copy.results = {index};
      plan_.steps.push_back(std::move(copy));
    }
    read(index);
    plan_.results.push_back({index, result.name, result.updates});
  }
}

PlanFunc FuncEmitter::run(std::int64_t base, std::int64_t alignment, std::int64_t& high_water) {
  plan_.name = func_.name();
  for (const FuncResult& result : func_.results) returned_[result.value].push_back(&result);
  add_args();
  add_steps();
  add_results();
  const int end = static_cast<int>(plan_.steps.size());
  for (const PlanResult& result : plan_.results) {
    const int buffer = buffer_of_value_[static_cast<std::size_t>(result.value)];
    buffers_[static_cast<std::size_t>(buffer)].last = end;  // outputs are read after the last step
  }
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].fixed != kNoBuffer) continue;
    lifetimes.push_back({buffers_[i].bytes, buffers_[i].first, buffers_[i].last});
    which.push_back(i);
  }
  const Placement placement = assign_buffers(lifetimes, base, alignment);
  for (std::size_t i = 0; i < which.size(); ++i) buffers_[which[i]].fixed = placement.offsets[i];
  high_water = std::max(high_water, placement.high_water);
  for (std::size_t i = 0; i < plan_.values.size(); ++i) {
    if (buffer_of_value_[i] >= 0)
      plan_.values[i].offset = buffers_[static_cast<std::size_t>(buffer_of_value_[i])].fixed;
  }
  return std::move(plan_);
}

}  // namespace tessera
