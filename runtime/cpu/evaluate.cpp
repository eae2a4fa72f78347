#include "runtime/cpu/evaluate.h"

namespace tessera {
namespace {

cpu::TensorArg arg_of(const Tensor& tensor, const Type& type, const Grid& grid,
                      const Coordinates& at) {
  return {tensor.dtype(), tensor.shape(), local_offsets(type, grid, at), type.shape,
          const_cast<std::byte*>(tensor.data())};
}

}  // namespace

std::vector<Tensor> evaluate_local(OpKind kind, const AttrList& attrs,
                                   std::span<const Tensor> operands,
                                   std::span<const Type> operand_types,
                                   std::span<const Type> result_types, const Grid& grid,
                                   const Coordinates& at) {
  const cpu::Kernel kernel = cpu::find_kernel(kind);
  TESSERA_CHECK(kernel != nullptr, mnemonic(kind), " has no kernel");
  std::vector<cpu::TensorArg> operand_args, result_args;
  for (std::size_t i = 0; i < operands.size(); ++i)
    operand_args.push_back(arg_of(operands[i], operand_types[i], grid, at));
  std::vector<Tensor> results;
  for (const Type& type : result_types)
    results.emplace_back(type.dtype, local_shape(type, grid, at));
  for (std::size_t i = 0; i < results.size(); ++i)
    result_args.push_back(arg_of(results[i], result_types[i], grid, at));
  kernel({kind, &attrs, operand_args, result_args});
  return results;
}

std::vector<Tensor> evaluate(OpKind kind, const AttrList& attrs, std::span<const Tensor> operands,
                             std::span<const Type> result_types) {
  std::vector<Type> operand_types, logical;
  for (const Tensor& operand : operands)
    operand_types.emplace_back(operand.dtype(), operand.shape());
  for (const Type& type : result_types) logical.push_back(type.logical());
  return evaluate_local(kind, attrs, operands, operand_types, logical, Grid(), {});
}

}  // namespace tessera
