#include "runtime/parameter_files.h"

#include <set>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "runtime/cpu/permute.h"
#include "runtime/weight_view.h"

namespace tessera {
namespace {

bool has_arg(const Plan& plan, const std::string& name) {
  for (const PlanFunc& func : plan.funcs) {
    for (const PlanArg& arg : func.args) {
      if (arg.role != ArgRole::Input &&
          func.values[static_cast<std::size_t>(arg.value)].name == name)
        return true;
    }
  }
  return false;
}

}  // namespace

std::map<std::string, Tensor> collect_in_file_layout(Executor& executor,
                                                     const std::string& suffix) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [arg, source] : executor.plan().weights) {
    if (!has_arg(executor.plan(), arg + suffix)) continue;
    const Tensor value = executor.collect_arg(arg + suffix);
    if (executor.world().rank() != 0) continue;
    Tensor& whole = tensors[source.tensor];
    if (whole.shape().empty() && whole.bytes() == 0) whole = Tensor(value.dtype(), source.shape);
    write_back(value, strided_view(source), whole);
  }
  return tensors;
}

void store_from_file_layout(Executor& executor, const std::string& suffix,
                            const std::function<Tensor(const std::string&)>& read,
                            const std::string& file) {
  for (const auto& [arg, source] : executor.plan().weights) {
    if (!has_arg(executor.plan(), arg + suffix)) continue;
    const Tensor whole = read(source.tensor);
    if (whole.shape() != source.shape || whole.dtype() != source.dtype) {
      throw CompileError(
          file, str("tensor ", in_quotes(source.tensor), " is ",
                    to_text(Type(whole.dtype(), whole.shape()), Grid()), ", the plan needs ",
                    to_text(Type(source.dtype, source.shape), Grid())));
    }
    const StridedView view = strided_view(source);
    Tensor value(source.dtype, view.shape);
    read_piece(whole.data(), view, Shape(view.shape.size(), 0), view.shape, source.dtype,
               value.mutable_data());
    executor.store_arg(arg + suffix, value);
  }
}

std::vector<std::string> parameter_suffixes(const Plan& plan) {
  std::set<std::string> suffixes{""};
  for (const char* suffix : {".m", ".v", ".momentum"}) {
    for (const auto& [arg, source] : plan.weights) {
      if (has_arg(plan, arg + suffix)) suffixes.insert(suffix);
    }
  }
  return {suffixes.begin(), suffixes.end()};
}

}  // namespace tessera
