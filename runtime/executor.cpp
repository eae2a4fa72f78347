#include "runtime/executor.h"

#include <cmath>
#include <cstring>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/collectives.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/permute.h"
#include "runtime/cpu/threads.h"

namespace tessera {
namespace {

cpu::TensorArg tensor_arg(const Type& type, std::byte* data, const Grid& grid,
                          const Coordinates& at) {
  return {type.dtype, local_shape(type, grid, at), local_offsets(type, grid, at), type.shape, data};
}

std::string described(const PlanFunc& func, const PlanStep& step, const Grid& grid) {
  if (step.fused())
    return str("fused %", func.values[static_cast<std::size_t>(step.results[0])].name);
  std::string text(mnemonic(step.kind));
  if (!step.operands.empty())
    text += str(" %", func.values[static_cast<std::size_t>(step.operands[0])].name);
  if (step.attrs.has("over")) text += str(" over ", grid.text(step.attrs.axes("over")));
  return text;
}

}  // namespace

Executor::Executor(const Plan& plan, World& world, const ExecutorOptions& options)
    : plan_(plan),
      world_(world),
      at_(plan.grid.coordinates(world.rank())),
      arena_(static_cast<std::size_t>(plan.arena_bytes)),
      abort_(world.abort_flag()) {
  cpu::use_one_math_thread();
  world_.check_same(plan.hash, "the plan's hash");
  for (std::size_t i = 0; i < plan.comms.size(); ++i) {
    groups_.push_back(
        world_.group(plan.grid.group(world.rank(), plan.comms[i]), static_cast<int>(i) + 1));
    const auto link = options.links.of(plan.comms[i], plan.grid);
    if (link) groups_.back()->model(*link);
  }
  add_streams(options);
  for (const PlanFunc& func : plan.funcs) bind(func);
}

// A plan without overlap runs on the rank's own thread.
void Executor::add_streams(const ExecutorOptions& options) {
  for (const PlanFunc& func : plan_.funcs) {
    for (const PlanStep& step : func.steps)
      stream_of_.try_emplace(step.stream, static_cast<int>(stream_of_.size()));
  }
  if (stream_of_.size() <= 1) {
    streams_.push_back(make_inline_stream());
    return;
  }
  for (std::size_t i = 0; i < stream_of_.size(); ++i) {
    std::optional<std::uint64_t> seed = options.delay_seed;
    if (seed) *seed = *seed * 1000003 + static_cast<std::uint64_t>(world_.rank()) * 101 + i;
    streams_.push_back(make_worker_stream(abort_, seed));
  }
}

Executor::Place Executor::place(const PlanFunc& func, int value) const {
  const PlanValue& v = func.values[static_cast<std::size_t>(value)];
  return {&v.type, v.offset == kNoBuffer ? nullptr : arena_.at(v.offset)};
}

void Executor::bind(const PlanFunc& func) {
  BoundFunc& bound = bound_[func.name];
  bound.func = &func;
  for (const PlanStep& step : func.steps)
    bound.steps.push_back({&step, bind_step(func, step), stream_of_.at(step.stream), nullptr});
  for (const PlanStep& step : func.steps) {
    for (const int before : step.after) {
      std::unique_ptr<Event>& ended = bound.steps[static_cast<std::size_t>(before)].ended;
      if (!ended) ended = std::make_unique<Event>();
    }
  }
}

std::function<void()> Executor::bind_step(const PlanFunc& func, const PlanStep& step) {
  if (step.fused()) return bind_fused(func, step);
  if (step.kind == OpKind::Constant) return bind_constant(func, step);
  if (step.kind == OpKind::Wait) return [] {};  // its edge is all there is to it
  if (family(step.kind) == OpFamily::Collective) return bind_collective(func, step);
  const cpu::Kernel kernel = cpu::find_kernel(step.kind);
  if (kernel == nullptr) throw CompileError("", str(mnemonic(step.kind), " cannot run on the CPU"));
  std::vector<cpu::TensorArg> operands, results;
  for (int v : step.operands)
    operands.push_back(tensor_arg(*place(func, v).type, place(func, v).data, plan_.grid, at_));
  for (int v : step.results)
    results.push_back(tensor_arg(*place(func, v).type, place(func, v).data, plan_.grid, at_));
  return [kernel, &step, operands = std::move(operands), results = std::move(results)] {
    kernel({step.kind, &step.attrs, operands, results});
  };
}

std::function<void()> Executor::bind_fused(const PlanFunc& func, const PlanStep& step) {
  auto program = std::make_shared<cpu::FusedProgram>();
  std::map<int, int> slots;
  std::vector<std::byte*> inputs, outputs;
  const auto add_slot = [&](int v) {
    const auto [found, fresh] = slots.try_emplace(v, static_cast<int>(program->slots.size()));
    if (fresh) program->slots.push_back(tensor_arg(*place(func, v).type, nullptr, plan_.grid, at_));
    return found->second;
  };
  for (int v : step.operands) {
    add_slot(v);
    inputs.push_back(place(func, v).data);
  }
  program->inputs = static_cast<int>(inputs.size());
  for (const PlanStep& inner : step.body) {
    cpu::FusedInstruction instruction{inner.kind, inner.attrs, {}, 0};
    for (int v : inner.operands) instruction.operands.push_back(add_slot(v));
    instruction.result = add_slot(inner.results[0]);
    program->code.push_back(std::move(instruction));
  }
  for (int v : step.results) {
    program->output_slots.push_back(add_slot(v));
    outputs.push_back(place(func, v).data);
  }
  return [program, inputs = std::move(inputs), outputs = std::move(outputs)] {
    cpu::run_fused(*program, inputs, outputs);
  };
}

std::function<void()> Executor::bind_collective(const PlanFunc& func, const PlanStep& step) {
  CollectiveCall call{step.kind,
                      &step.attrs,
                      place(func, step.operands[0]).type,
                      place(func, step.results[0]).type,
                      &plan_.grid,
                      world_.rank(),
                      place(func, step.operands[0]).data,
                      place(func, step.results[0]).data,
                      described(func, step, plan_.grid)};
  if (step.comm < 0) return [call] { run_local_reshard(call); };
  Group* group = groups_[static_cast<std::size_t>(step.comm)].get();
  return [call, group] { run_collective(call, *group); };
}

std::function<void()> Executor::bind_constant(const PlanFunc& func, const PlanStep& step) {
  const auto found = plan_.constants.find(step.attrs.text("data"));
  if (found == plan_.constants.end())
    throw CompileError("", str("the plan lacks constant ", in_quotes(step.attrs.text("data"))));
  const Place to = place(func, step.results[0]);
  const Tensor* whole = &found->second;
  if (whole->dtype() != to.type->dtype || whole->shape() != to.type->shape)
    throw CompileError("", "a constant has another type than its step");
  return [this, to, whole] { store(to, *whole); };
}

void Executor::store(const Place& place, const Tensor& whole) {
  const Type& type = *place.type;
  const auto strides = row_major_strides(type.shape);
  const Shape start = local_offsets(type, plan_.grid, at_);
  std::int64_t before = 0;
  for (std::size_t d = 0; d < start.size(); ++d) before += start[d] * strides[d];
  const std::size_t bytes = byte_size(type.dtype);
  cpu::copy_strided(whole.data() + static_cast<std::size_t>(before) * bytes,
                    local_shape(type, plan_.grid, at_), strides, place.data, bytes);
}

// Streams go on by themselves: steps are put into their queues in the plan's one order, and events
// make the edges. A function begins when the one before it has ended.
void Executor::run(std::string_view func) {
  const auto found = bound_.find(func);
  TESSERA_CHECK(found != bound_.end(), "the plan has no function @", func);
  BoundFunc& bound = found->second;
  const std::uint64_t round = ++bound.runs;
  const bool inlined = streams_.size() == 1;
  if (!inlined) streams_[0]->enqueue([&bound] { bound.begun.record(); });
  for (const BoundStep& step : bound.steps) {
    abort_.check();
    streams_[static_cast<std::size_t>(step.stream)]->enqueue(
        [this, &bound, &step, round] { run_step(bound, step, round); });
  }
}

void Executor::run_step(BoundFunc& bound, const BoundStep& step, std::uint64_t round) {
  if (step.stream != 0 && step.step->after.empty()) bound.begun.wait(round, abort_);
  for (const int before : step.step->after)
    bound.steps[static_cast<std::size_t>(before)].ended->wait(round, abort_);
  const auto start = trace_ != nullptr ? Trace::Clock::now() : Trace::Clock::time_point{};
  try {
    step.run();
  } catch (const CompileError& error) {
    throw CompileError(str("@", bound.func->name, " step ", &step - bound.steps.data(), " ",
                           described(*bound.func, *step.step, plan_.grid)),
                       error.diagnostic().message, error.diagnostic().notes);
  }
  if (trace_ != nullptr && step.step->kind != OpKind::Wait) {
    trace_->record(described(*bound.func, *step.step, plan_.grid),
                   step.step->comm >= 0 ? "communication" : "compute", step.stream, start,
                   Trace::Clock::now());
  }
  if (step.ended) step.ended->record();
}

void Executor::record_into(Trace& to) {
  trace_ = &to;
  for (const auto& [name, stream] : stream_of_) {
    if (stream != 0) to.name_stream(stream, str("over ", name));
  }
}

void Executor::synchronize() {
  for (const auto& stream : streams_) stream->synchronize();
}

}  // namespace tessera
