// Parameters, gradients and optimizer states as safetensors in the layout and under the names of
// the model's own file.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "runtime/executor.h"

namespace tessera {

// Whole tensors by ONNX name on rank 0 (empty elsewhere): every argument %w + `suffix` of a
// parameter %w, undone through the parameter's view. Several parameters of one tensor assemble.
// Every rank must call it.
std::map<std::string, Tensor> collect_in_file_layout(Executor& executor, const std::string& suffix);
// The reverse, one tensor at a time: `read` gives the tensor of this ONNX name, or throws. `file`
// is for messages.
void store_from_file_layout(Executor& executor, const std::string& suffix,
                            const std::function<Tensor(const std::string&)>& read,
                            const std::string& file);
// Suffixes of the states that parameters have in this plan: "", ".m", ".v" ... (gradients are not
// among them).
std::vector<std::string> parameter_suffixes(const Plan& plan);

}  // namespace tessera
