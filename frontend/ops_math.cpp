// Contractions and reductions.
#include <algorithm>
#include <cctype>
#include <map>

#include "frontend/importer.h"
#include "ir/base/index_map.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

// Drops a batch dimension of size 1 that the other operand has larger, instead of repeating it.
struct Batched {
  Value* value;
  std::string loops;
};

// numpy.matmul as an einsum: batch dimensions broadcast by leaving loops out of an operand.
void mat_mul(Node& n) {
  Value* a = n.in(0);
  Value* b = n.in(1);
  if (a->type.rank() == 0 || b->type.rank() == 0) n.fail("a scalar operand");
  const bool vector_a = a->type.rank() == 1, vector_b = b->type.rank() == 1;
  const std::size_t batch_a = vector_a ? 0 : a->type.rank() - 2,
                    batch_b = vector_b ? 0 : b->type.rank() - 2;
  const std::size_t batch = std::max(batch_a, batch_b);
  const std::string loops = fresh_loops(batch + 3, "");
  const char m = loops[batch], k = loops[batch + 1], j = loops[batch + 2];
  Shape sizes(batch, 1);
  const auto size_at = [&](const Value* v, std::size_t own, std::size_t d) {
    return d < batch - own ? 1 : v->type.shape[d - (batch - own)];
  };
  for (std::size_t d = 0; d < batch; ++d) {
    const std::int64_t x = size_at(a, batch_a, d), y = size_at(b, batch_b, d);
    if (x != y && x != 1 && y != 1)
      n.fail(str("batch dimensions ", x, " and ", y, " do not broadcast"));
    sizes[d] = x == 1 ? y : x;
  }
  const auto batched = [&](Value* v, std::size_t own) {
    Batched result{v, ""};
    Shape kept;
    for (std::size_t d = batch - own; d < batch; ++d) {
      if (size_at(v, own, d) == 1 && sizes[d] != 1) continue;
      kept.push_back(sizes[d]);
      result.loops += loops[d];
    }
    kept.insert(kept.end(), v->type.shape.begin() + static_cast<std::ptrdiff_t>(own),
                v->type.shape.end());
    result.value = n.b.reshape(v, kept);
    return result;
  };
  Batched left = batched(a, batch_a), right = batched(b, batch_b);
  left.loops += vector_a ? std::string(1, k) : std::string{m, k};
  right.loops += vector_b ? std::string(1, k) : std::string{k, j};
  const std::int64_t ka = a->type.shape.back(),
                     kb = vector_b ? b->type.shape[0] : b->type.shape[b->type.rank() - 2];
  if (ka != kb) n.fail(str("inner dimensions ", ka, " and ", kb, " differ"));
  std::string result;
  for (std::size_t d = 0; d < batch; ++d) {
    if (left.loops.find(loops[d]) != std::string::npos ||
        right.loops.find(loops[d]) != std::string::npos)
      result += loops[d];
  }
  const std::string computed =
      result + (vector_a ? "" : std::string(1, m)) + (vector_b ? "" : std::string(1, j));
  Value* product =
      n.b.einsum({left.value, right.value}, str(left.loops, ",", right.loops, "->", computed));
  Shape shape = sizes;
  if (!vector_a) shape.push_back(a->type.shape[a->type.rank() - 2]);
  if (!vector_b) shape.push_back(b->type.shape.back());
  n.set(0, n.b.reshape(product, shape));
}

void gemm(Node& n) {
  Value* a = n.in(0);
  Value* b = n.in(1);
  if (a->type.rank() != 2 || b->type.rank() != 2) n.fail("needs matrices");
  const bool ta = n.attr("transA", std::int64_t{0}) != 0,
             tb = n.attr("transB", std::int64_t{0}) != 0;
  const std::int64_t ka = a->type.shape[ta ? 0 : 1], kb = b->type.shape[tb ? 1 : 0];
  if (ka != kb) n.fail(str("inner dimensions ", ka, " and ", kb, " differ"));
  Value* y = n.b.einsum({a, b}, str(ta ? "km" : "mk", ",", tb ? "nk" : "kn", "->mn"));
  if (const double alpha = n.attr("alpha", 1.0); alpha != 1.0) y = n.b.scale(y, alpha);
  if (n.has(2)) {
    Value* c = n.in(2);
    if (const double beta = n.attr("beta", 1.0); beta != 1.0) c = n.b.scale(c, beta);
    if (broadcast_shape(n, {y, c}) != y->type.shape) n.fail("C does not broadcast to the product");
    y = n.b.add(y, n.b.broadcast_to(c, y->type.shape));
  }
  n.set(0, y);
}

struct EinsumTerms {
  std::vector<std::string> operands;
  std::string result;
  bool explicit_result = false;
};

EinsumTerms split_equation(const Node& n, std::string equation) {
  std::erase_if(equation, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  EinsumTerms terms;
  const std::size_t arrow = equation.find("->");
  terms.explicit_result = arrow != std::string::npos;
  if (terms.explicit_result) terms.result = equation.substr(arrow + 2);
  terms.operands.emplace_back();
  for (char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.operands.emplace_back();
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '.') {
      terms.operands.back() += c;
    } else {
      n.fail(str("equation ", in_quotes(equation), " has an unexpected character"));
    }
  }
  if (terms.operands.size() != n.input_count())
    n.fail(str("equation ", in_quotes(equation), " has ", terms.operands.size(),
               " terms, the node ", n.input_count(), " inputs"));
  return terms;
}

// "..." becomes letters; operands of smaller rank take the last of them.
void spell_ellipsis(const Node& n, EinsumTerms& terms, const std::vector<Value*>& operands) {
  std::string used = terms.result;
  for (const std::string& term : terms.operands) used += term;
  std::erase(used, '.');
  std::size_t most = 0;
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t at = terms.operands[i].find("...");
    const std::size_t letters = terms.operands[i].size() - (at == std::string::npos ? 0 : 3);
    const std::size_t rank = operands[i]->type.rank();
    if (rank < letters || (at == std::string::npos && rank != letters))
      n.fail(str("term \"", terms.operands[i], "\" does not fit an input of rank ", rank));
    counts.push_back(at == std::string::npos ? 0 : rank - letters);
    most = std::max(most, counts.back());
  }
  const std::string dots = fresh_loops(most, used);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t at = terms.operands[i].find("...");
    if (at != std::string::npos) terms.operands[i].replace(at, 3, dots.substr(most - counts[i]));
  }
  const std::size_t at = terms.result.find("...");
  if (at != std::string::npos) terms.result.replace(at, 3, dots);
  if (!terms.explicit_result) {  // letters that occur once, in alphabetical order
    std::map<char, int> seen;
    for (const std::string& term : terms.operands) {
      for (char c : term) ++seen[c];
    }
    terms.result = dots;
    for (const auto& [loop, count] : seen) {
      if (count == 1 && dots.find(loop) == std::string::npos) terms.result += loop;
    }
  }
  if (terms.result.find('.') != std::string::npos) n.fail("the equation's dots are malformed");
}

// A letter that occurs twice in one term reads a diagonal: mask with an identity and sum one of the
// two away.
Value* diagonal(Node& n, Value* value, std::string& term) {
  for (std::size_t d = 0; d < term.size(); ++d) {
    const std::size_t again = term.find(term[d], d + 1);
    if (again == std::string::npos) continue;
    if (value->type.shape[d] != value->type.shape[again])
      n.fail(str("letter '", term[d], "' has two sizes"));
    Value* rows = n.b.iota(static_cast<std::int64_t>(d), DType::I64, value->type.shape);
    Value* columns = n.b.iota(static_cast<std::int64_t>(again), DType::I64, value->type.shape);
    Value* masked = n.b.emit(
        OpKind::Select, {n.b.emit(OpKind::Equal, {rows, columns}), value, n.b.fill_like(0, value)});
    value = n.b.reduce_sum(masked, {static_cast<std::int64_t>(again)});
    term.erase(again, 1);
    --d;
  }
  return value;
}

void einsum(Node& n) {
  EinsumTerms terms = split_equation(n, n.attr("equation", std::string()));
  std::vector<Value*> operands;
  for (std::size_t i = 0; i < n.input_count(); ++i) operands.push_back(n.in(i));
  spell_ellipsis(n, terms, operands);
  for (std::size_t i = 0; i < operands.size(); ++i)
    operands[i] = diagonal(n, operands[i], terms.operands[i]);
  for (char loop : terms.result) {
    const bool read = std::ranges::any_of(
        terms.operands, [&](const std::string& t) { return t.find(loop) != std::string::npos; });
    if (!read) n.fail(str("letter '", loop, "' of the result is in no term"));
  }
  while (operands.size() > 2) {  // pairwise from the left, keeping what is still needed
    std::string later = terms.result;
    for (std::size_t i = 2; i < operands.size(); ++i) later += terms.operands[i];
    std::string kept;
    for (char loop : terms.operands[0] + terms.operands[1]) {
      if (later.find(loop) != std::string::npos && kept.find(loop) == std::string::npos)
        kept += loop;
    }
    operands[1] = n.b.einsum({operands[0], operands[1]},
                             str(terms.operands[0], ",", terms.operands[1], "->", kept));
    terms.operands[1] = kept;
    operands.erase(operands.begin());
    terms.operands.erase(terms.operands.begin());
  }
  n.set(0, n.b.einsum(operands, str(join(terms.operands, ","), "->", terms.result)));
}

// Axes are an attribute before opset 13 (ReduceSum) or 18 (the others), an input later.
Ints reduced_axes(const Node& n, std::int64_t input_since, bool& none) {
  const std::size_t rank = n.in(0)->type.rank();
  Ints axes;
  bool given = false;
  if (n.opset() >= input_since) {
    given = n.has(1) && elements(n.in(1)->type.shape) > 0;
    if (given) axes = n.ints_in(1);
  } else {
    axes = n.attr_ints("axes");
    given = n.has_attr("axes") && !axes.empty();
  }
  if (given) return n.axes(axes, rank);
  none = n.attr("noop_with_empty_axes", std::int64_t{0}) != 0;
  for (std::size_t d = 0; d < rank && !none; ++d) axes.push_back(static_cast<std::int64_t>(d));
  return axes;
}

template <class F>
void reduce(Node& n, std::int64_t input_since, F run) {
  bool none = false;
  Value* x = n.in(0);
  const Ints axes = reduced_axes(n, input_since, none);
  Value* y = run(n, x, axes);
  n.set(0, keep_dims(n, y, x->type.shape, axes, n.attr("keepdims", std::int64_t{1}) != 0));
}

Value* plain_reduce(Node& n, OpKind kind, Value* x, const Ints& axes) {
  return axes.empty() ? x : n.b.emit(kind, {x}, {{"dims", axes}});
}

Value* mean_of(Node& n, Value* x, const Ints& axes) {
  double count = 1;
  for (std::int64_t axis : axes)
    count *= static_cast<double>(x->type.shape[static_cast<std::size_t>(axis)]);
  if (!is_float(x->type.dtype)) n.fail("mean of integers is not supported");
  return n.b.scale(n.b.reduce_sum(x, axes), 1.0 / count);
}

Value* log_sum_exp_of(Node& n, Value* x, const Ints& axes) {
  Ints kept;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(x->type.rank()); ++d) {
    if (!std::ranges::binary_search(axes, d)) kept.push_back(d);
  }
  Value* top = plain_reduce(n, OpKind::ReduceMax, x, axes);
  Value* exps = n.b.emit(OpKind::Exp, {n.b.sub(x, n.b.broadcast(top, kept, x->type.shape))});
  return n.b.add(n.b.emit(OpKind::Log, {n.b.reduce_sum(exps, axes)}), top);
}

}  // namespace

void add_math_ops(TranslatorTable& t) {
  t["MatMul"] = mat_mul;
  t["Gemm"] = gemm;
  t["Einsum"] = einsum;
  t["ReduceSum"] = [](Node& n) {
    reduce(n, 13, [](Node& m, Value* x, const Ints& a) { return m.b.reduce_sum(x, a); });
  };
  t["ReduceMean"] = [](Node& n) { reduce(n, 18, mean_of); };
  t["ReduceMax"] = [](Node& n) {
    reduce(n, 18, [](Node& m, Value* x, const Ints& a) {
      return plain_reduce(m, OpKind::ReduceMax, x, a);
    });
  };
  t["ReduceMin"] = [](Node& n) {
    reduce(n, 18, [](Node& m, Value* x, const Ints& a) {
      return plain_reduce(m, OpKind::ReduceMin, x, a);
    });
  };
  t["ReduceProd"] = [](Node& n) {
    reduce(n, 18, [](Node& m, Value* x, const Ints& a) {
      return plain_reduce(m, OpKind::ReduceProd, x, a);
    });
  };
  t["ReduceSumSquare"] = [](Node& n) {
    reduce(n, 18,
           [](Node& m, Value* x, const Ints& a) { return m.b.reduce_sum(m.b.mul(x, x), a); });
  };
  t["ReduceL2"] = [](Node& n) {
    reduce(n, 18, [](Node& m, Value* x, const Ints& a) {
      return m.b.emit(OpKind::Sqrt, {m.b.reduce_sum(m.b.mul(x, x), a)});
    });
  };
  t["ReduceL1"] = [](Node& n) {
    reduce(n, 18, [](Node& m, Value* x, const Ints& a) {
      return m.b.reduce_sum(m.b.emit(OpKind::Abs, {x}), a);
    });
  };
  t["ReduceLogSumExp"] = [](Node& n) { reduce(n, 18, log_sum_exp_of); };
  t["GlobalAveragePool"] = [](Node& n) {
    Ints axes;
    for (std::size_t d = 2; d < n.in(0)->type.rank(); ++d)
      axes.push_back(static_cast<std::int64_t>(d));
    n.set(0, keep_dims(n, mean_of(n, n.in(0), axes), n.in(0)->type.shape, axes, true));
  };
}

}  // namespace tessera
