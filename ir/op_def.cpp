#include "ir/op_def.h"

#include <algorithm>
#include <array>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr std::array<const OpDef*, kOpCount> kDefs{
#define OP(Kind, mnemonic, family, attrs) &k##Kind,
#include "ir/base/ops.def"
#undef OP
};

[[noreturn]] void refuse(const Op& op, const std::string& what) {
  throw CompileError(op.origin.empty() ? "" : str("node '", op.origin, "'"),
                     str(mnemonic(op.kind), ": ", what));
}

// Spells "..." as `leading` in a row's term.
std::string spelled(const std::string& term, const std::string& leading) {
  return term.starts_with("...") ? leading + term.substr(3) : term;
}

IndexMap row_map(const Op& op, const OpDef& def) {
  const std::size_t arrow = def.index_map.find("->");
  std::vector<std::string> operands = split(def.index_map.substr(0, arrow), ',');
  std::vector<std::string> results = split(def.index_map.substr(arrow + 2), ',');
  if (arrow == 0) operands.clear();
  if (operands.size() != op.operands.size()) {
    refuse(op, str("takes ", operands.size(), " operands, has ", op.operands.size()));
  }
  std::string explicit_loops;
  for (char c : def.index_map) {
    if (std::isalpha(static_cast<unsigned char>(c))) explicit_loops += c;
  }
  std::size_t leading_rank = op.results.empty() ? 0 : op.results[0]->type.rank();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].starts_with("...")) continue;
    const std::size_t own = operands[i].size() - 3;
    const std::size_t rank = op.operands[i]->type.rank();
    if (rank < own)
      refuse(op,
             str("operand %", op.operands[i]->name, " has rank ", rank, ", needs at least ", own));
    leading_rank = rank - own;
    break;
  }
  const std::string leading = fresh_loops(leading_rank, explicit_loops);
  IndexMap map;
  for (const std::string& term : operands) map.operands.push_back(spelled(term, leading));
  for (const std::string& term : results) map.results.push_back(spelled(term, leading));
  for (char loop : explicit_loops) {
    if (std::isupper(static_cast<unsigned char>(loop)))
      (def.expand != nullptr ? map.expandable : map.whole) += loop;
  }
  return map;
}

DType result_dtype(const Op& op, const OpDef& def) {
  switch (def.dtype) {
    case ResultDtype::SameAsFirst:
      return op.operands.front()->type.dtype;
    case ResultDtype::SameAsLast:
      return op.operands.back()->type.dtype;
    case ResultDtype::Bool:
      return DType::Bool;
    case ResultDtype::I64:
      return DType::I64;
    case ResultDtype::Explicit:
      break;
  }
  return op.results.front()->type.dtype;
}

}  // namespace

const OpDef& op_def(OpKind kind) { return *kDefs[static_cast<std::size_t>(kind)]; }

IndexMap index_map(const Op& op) {
  const OpDef& def = op_def(op.kind);
  IndexMap map = def.map != nullptr ? def.map(op) : row_map(op, def);
  if (map.operands.size() != op.operands.size()) {
    refuse(op, str("index map ", map.text(), " is for ", map.operands.size(), " operands, has ",
                   op.operands.size()));
  }
  for (std::size_t i = 0; i < map.operands.size(); ++i) {
    if (map.operands[i].size() != op.operands[i]->type.rank()) {
      refuse(op, str("operand %", op.operands[i]->name, " has rank ", op.operands[i]->type.rank(),
                     ", index map ", map.text(), " needs ", map.operands[i].size()));
    }
  }
  return map;
}

std::map<char, std::int64_t> loop_sizes(const Op& op, const IndexMap& map) {
  std::map<char, std::int64_t> sizes;
  const auto add = [&](const std::string& term, const Value& value) {
    for (std::size_t d = 0; d < term.size(); ++d) {
      const auto [found, fresh] = sizes.try_emplace(term[d], value.type.shape[d]);
      if (!fresh && found->second != value.type.shape[d]) {
        refuse(op, str("loop '", term[d], "' of ", map.text(), " is both ", found->second, " and ",
                       value.type.shape[d], " (dimension ", d, " of %", value.name, ")"));
      }
    }
  };
  for (std::size_t i = 0; i < map.operands.size(); ++i) add(map.operands[i], *op.operands[i]);
  for (std::size_t i = 0; i < std::min(map.results.size(), op.results.size()); ++i) {
    if (map.results[i].size() != op.results[i]->type.rank()) {
      refuse(op, str("result %", op.results[i]->name, " has rank ", op.results[i]->type.rank(),
                     ", index map ", map.text(), " gives ", map.results[i].size()));
    }
    add(map.results[i], *op.results[i]);
  }
  return sizes;
}

std::vector<Type> infer_types(const Op& op) {
  const OpDef& def = op_def(op.kind);
  TESSERA_CHECK(!def.explicit_type, mnemonic(op.kind), " has explicit result types");
  if (def.infer != nullptr) return def.infer(op);
  const IndexMap map = index_map(op);
  if (def.check != nullptr) {
    if (const std::string problem = def.check(op); !problem.empty()) refuse(op, problem);
  }
  const auto sizes = loop_sizes(op, map);
  std::vector<Type> types;
  for (const std::string& term : map.results) {
    Shape shape;
    for (char loop : term) {
      const auto found = sizes.find(loop);
      if (found == sizes.end())
        refuse(op, str("nothing gives the size of loop '", loop, "' of ", map.text()));
      shape.push_back(found->second);
    }
    types.emplace_back(result_dtype(op, def), std::move(shape));
  }
  return types;
}

}  // namespace tessera
