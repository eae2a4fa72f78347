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

Executor::Executor(const Plan& plan, World& world)
    : plan_(plan),
      world_(world),
      at_(plan.grid.coordinates(world.rank())),
      arena_(static_cast<std::size_t>(plan.arena_bytes)),
      stream_(make_inline_stream()) {
  cpu::use_one_math_thread();
  world_.check_same(plan.hash, "the plan's hash");
  for (const Axes& axes : plan.comms)
    groups_.push_back(world_.group(plan.grid.group(world.rank(), axes)));
  for (const PlanFunc& func : plan.funcs) bind(func);
}

Executor::Place Executor::place(const PlanFunc& func, int value) const {
  const PlanValue& v = func.values[static_cast<std::size_t>(value)];
  return {&v.type, v.offset == kNoBuffer ? nullptr : arena_.at(v.offset)};
}

void Executor::bind(const PlanFunc& func) {
  std::vector<BoundStep>& steps = bound_[func.name];
  for (const PlanStep& step : func.steps) steps.push_back({&step, bind_step(func, step)});
}

std::function<void()> Executor::bind_step(const PlanFunc& func, const PlanStep& step) {
  if (step.fused()) return bind_fused(func, step);
  if (step.kind == OpKind::Constant) return bind_constant(func, step);
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

void Executor::run(std::string_view func) {
  const auto found = bound_.find(func);
  TESSERA_CHECK(found != bound_.end(), "the plan has no function @", func);
  const PlanFunc& plan_func = *plan_.find(func);
  for (const BoundStep& step : found->second) {
    if (world_.abort_flag().is_set()) throw Aborted();
    const auto start = trace != nullptr ? Trace::Clock::now() : Trace::Clock::time_point{};
    try {
      stream_->enqueue(step.run);  // the inline stream: runs at once, on this thread
    } catch (const Aborted&) {
      throw;
    } catch (const CompileError& error) {
      throw CompileError(str("@", func, " step ", &step - found->second.data(), " ",
                             described(plan_func, *step.step, plan_.grid)),
                         error.diagnostic().message, error.diagnostic().notes);
    }
    if (trace != nullptr) {
      const bool communicates = step.step->comm >= 0;
      trace->record(described(plan_func, *step.step, plan_.grid),
                    communicates ? "communication" : "compute", start, Trace::Clock::now());
    }
  }
}

void Executor::set_input(std::string_view func, std::string_view input, const Tensor& whole) {
  const PlanFunc& plan_func = *plan_.find(func);
  for (const PlanArg& arg : plan_func.args) {
    const PlanValue& value = plan_func.values[static_cast<std::size_t>(arg.value)];
    if (value.name != input || arg.role != ArgRole::Input) continue;
    if (whole.dtype() != value.type.dtype || whole.shape() != value.type.shape) {
      throw CompileError(
          "--input", str(in_quotes(std::string(input)), " is ",
                         to_text(Type(whole.dtype(), whole.shape()), Grid()), ", the plan needs ",
                         to_text(value.type.logical(), Grid())));
    }
    store(place(plan_func, arg.value), whole);
    return;
  }
  throw CompileError("--input", str("the plan has no input ", in_quotes(std::string(input))));
}

Executor::Place Executor::find_arg(std::string_view name) const {
  for (const PlanFunc& func : plan_.funcs) {
    for (const PlanArg& arg : func.args) {
      if (arg.role != ArgRole::Input &&
          func.values[static_cast<std::size_t>(arg.value)].name == name)
        return place(func, arg.value);
    }
  }
  throw CompileError("", str("the plan has no argument %", name));
}

// Ranks that differ only along axes the value does not use hold copies: the first of them sends.
Tensor Executor::collect(const Place& place, const std::string& what) {
  const Type& type = *place.type;
  const Axes used = type.used_axes();
  const auto sends = [&](const Coordinates& at) {
    for (AxisId axis = 0; axis < plan_.grid.axis_count(); ++axis) {
      if (!contains(used, axis) && at[static_cast<std::size_t>(axis)] != 0) return false;
    }
    return true;
  };
  const std::size_t bytes = byte_size(type.dtype);
  const auto size = static_cast<std::size_t>(world_.size());
  std::vector<ConstBytes> send(size);
  std::vector<Bytes> receive(size);
  std::vector<std::vector<std::byte>> staged(size);
  if (sends(at_))
    send[0] = {place.data,
               static_cast<std::size_t>(elements(local_shape(type, plan_.grid, at_))) * bytes};
  for (std::size_t r = 0; r < size && world_.rank() == 0; ++r) {
    const Coordinates at = plan_.grid.coordinates(static_cast<int>(r));
    if (!sends(at)) continue;
    staged[r].resize(static_cast<std::size_t>(elements(local_shape(type, plan_.grid, at))) * bytes);
    receive[r] = {staged[r].data(), staged[r].size()};
  }
  world_.everyone().exchange(send, receive, what);
  if (world_.rank() != 0) return {};
  Tensor whole(type.dtype, type.shape);
  const auto strides = row_major_strides(type.shape);
  for (std::size_t r = 0; r < size; ++r) {
    const Coordinates at = plan_.grid.coordinates(static_cast<int>(r));
    if (!sends(at)) continue;
    const Shape shape = local_shape(type, plan_.grid, at);
    const Shape start = local_offsets(type, plan_.grid, at);
    std::int64_t before = 0;
    for (std::size_t d = 0; d < start.size(); ++d) before += start[d] * strides[d];
    std::byte* target = whole.mutable_data() + static_cast<std::size_t>(before) * bytes;
    if (!type.partial.axes.empty()) {  // addends, in rank order
      TESSERA_CHECK(type.dtype == DType::F32 && type.partial.op == ReduceOp::Sum,
                    "only f32 sums are collected");
      std::vector<float> sum(static_cast<std::size_t>(elements(shape)));
      cpu::copy_strided(target, shape, strides, sum.data(), bytes);
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += reinterpret_cast<const float*>(staged[r].data())[i];
      cpu::scatter_strided(sum.data(), shape, strides, target, bytes);
    } else {
      cpu::scatter_strided(staged[r].data(), shape, strides, target, bytes);
    }
  }
  return whole;
}

Tensor Executor::collect_arg(std::string_view name) {
  return collect(find_arg(name), str("collect %", name));
}

Tensor Executor::collect_output(std::string_view func, std::string_view output) {
  const PlanFunc& plan_func = *plan_.find(func);
  for (const PlanResult& result : plan_func.results) {
    if (!result.updates && result.name == output)
      return collect(place(plan_func, result.value), str("collect ", output));
  }
  throw CompileError("--output", str("the plan has no output ", in_quotes(std::string(output))));
}

double Executor::scalar_output(std::string_view func, std::string_view output) const {
  const PlanFunc& plan_func = *plan_.find(func);
  for (const PlanResult& result : plan_func.results) {
    if (result.updates || result.name != output) continue;
    const Place at = place(plan_func, result.value);
    if (at.type->dtype == DType::F64) return *reinterpret_cast<const double*>(at.data);
    return static_cast<double>(*reinterpret_cast<const float*>(at.data));
  }
  return std::nan("");
}

std::shared_ptr<HostScalars> Executor::stage_scalars(std::string_view func,
                                                     const std::vector<std::string>& outputs) {
  auto staged = std::make_shared<HostScalars>();
  stream_->enqueue([this, staged, func = std::string(func), outputs] {
    for (const std::string& output : outputs) staged->values.push_back(scalar_output(func, output));
    staged->taken = std::chrono::steady_clock::now();
    staged->ready.set();
  });
  return staged;
}

void Executor::store_arg(std::string_view name, const Tensor& whole) {
  const Place to = find_arg(name);
  if (whole.dtype() != to.type->dtype || whole.shape() != to.type->shape) {
    throw CompileError(
        "", str("%", name, " is ", to_text(to.type->logical(), Grid()), ", the file has ",
                to_text(Type(whole.dtype(), whole.shape()), Grid())));
  }
  store(to, whole);
}

}  // namespace tessera
