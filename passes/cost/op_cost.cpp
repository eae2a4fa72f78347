#include "passes/cost/op_cost.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/base/index_map.h"
#include "passes/cost/collective_cost.h"

namespace tessera {
namespace {

double local_bytes(const Type& type, const Grid& grid) {
  return static_cast<double>(largest_local_bytes(type, grid));
}

double product(const Shape& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

bool has(std::string_view term, char loop) { return term.find(loop) != std::string_view::npos; }

// Loops of an einsum as one batched matrix product.
void contraction(const OpView& op, const Grid& grid, Work& work) {
  const IndexMap map = parse_index_map(op.attrs->text("spec"), "einsum");
  if (map.operands.size() < 2) return;
  double m = 1, n = 1, k = 1, batch = 1;
  std::string seen;
  const auto count = [&](const std::string& term, const Type& type) {
    const Shape shape = largest_local_shape(type, grid);
    for (std::size_t d = 0; d < term.size(); ++d) {
      if (has(seen, term[d])) continue;
      seen += term[d];
      const bool in_a = has(map.operands[0], term[d]), in_b = has(map.operands[1], term[d]);
      const bool in_result = has(map.results[0], term[d]);
      const double size = static_cast<double>(shape[d]);
      (in_a && in_b ? (in_result ? batch : k) : in_a ? m : n) *= size;
    }
  };
  count(map.operands[0], *op.operands[0]);
  count(map.operands[1], *op.operands[1]);
  work.flops = 2 * m * n * k * batch;
  work.smallest = std::min({m, n, k});
}

// Two contractions forward and five backward, over b S g r T and one head dimension each; half of
// the keys where the mask is causal.
void attention(const OpView& op, const Grid& grid, Work& work) {
  const bool backward = op.kind == OpKind::AttentionGrad;
  const Shape q = largest_local_shape(*op.operands[backward ? 1 : 0], grid);
  const Shape k = largest_local_shape(*op.operands[backward ? 2 : 1], grid);
  const double keys = static_cast<double>(k[1]);
  work.flops = (backward ? 10 : 4) * product(q) * keys;
  work.smallest = static_cast<double>(q.back());
}

}  // namespace

Work work_of(const OpView& op, const Grid& grid) {
  Work work;
  for (const Type* type : op.operands) work.bytes += local_bytes(*type, grid);
  for (const Type* type : op.results) work.bytes += local_bytes(*type, grid);
  if (!op.operands.empty()) work.dtype = op.operands[0]->dtype;
  switch (op.kind) {
    case OpKind::Einsum:
      contraction(op, grid, work);
      break;
    case OpKind::Attention:
    case OpKind::AttentionGrad:
      attention(op, grid, work);
      break;
    case OpKind::Reshape:
    case OpKind::Wait:
      work.bytes = 0;  // the same bytes under another shape
      break;
    case OpKind::Gather:  // reads only the rows it takes
      work.bytes = 2 * local_bytes(*op.results[0], grid);
      break;
    default:
      break;
  }
  return work;
}

double seconds_of(const Machine& machine, const Work& work) {
  if (work.bytes == 0 && work.flops == 0) return 0;
  double arithmetic = 0;
  if (work.flops > 0) {
    arithmetic = work.flops /
                 (machine.peak(work.dtype) * machine.device.gemm.at(std::max(1.0, work.smallest)));
  }
  return std::max(arithmetic, work.bytes / machine.device.memory_bandwidth) +
         machine.device.launch_seconds;
}

double fused_seconds(const Machine& machine, const Grid& grid,
                     std::span<const Type* const> operands, std::span<const Type* const> results) {
  static const AttrList kNone;
  return seconds_of(machine, work_of({OpKind::Add, &kNone, operands, results}, grid));
}

double collective_bytes(const OpView& op, const Grid& grid) {
  return local_bytes(op.kind == OpKind::AllGather ? *op.results[0] : *op.operands[0], grid);
}

double op_seconds(const Machine& machine, const Grid& grid, const OpView& op) {
  if (communicates(op.kind)) {
    return collective_cost(machine, grid, op.kind, op.attrs->axes("over"),
                           collective_bytes(op, grid))
        .seconds;
  }
  TESSERA_CHECK(op.kind != OpKind::Reshard, "a reshard is lowered before it has a cost");
  return seconds_of(machine, work_of(op, grid));
}

}  // namespace tessera
