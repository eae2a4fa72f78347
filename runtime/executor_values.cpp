// How whole values get into and out of an executor's arena.
#include <cmath>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/cpu/permute.h"
#include "runtime/executor.h"

namespace tessera {

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
    const Place to = place(plan_func, arg.value);
    streams_[0]->enqueue([this, to, whole] { store(to, whole); });
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
  synchronize();
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
  streams_[0]->enqueue([this, staged, func = std::string(func), outputs] {
    for (const std::string& output : outputs) staged->values.push_back(scalar_output(func, output));
    staged->taken = std::chrono::steady_clock::now();
    staged->ready.record();
  });
  return staged;
}

void Executor::store_arg(std::string_view name, const Tensor& whole) {
  synchronize();
  const Place to = find_arg(name);
  if (whole.dtype() != to.type->dtype || whole.shape() != to.type->shape) {
    throw CompileError(
        "", str("%", name, " is ", to_text(to.type->logical(), Grid()), ", the file has ",
                to_text(Type(whole.dtype(), whole.shape()), Grid())));
  }
  store(to, whole);
}

}  // namespace tessera
