// Elementwise ONNX ops. Broadcasting becomes explicit here.
#include <cmath>
#include <limits>

#include "frontend/importer.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

template <OpKind kKind>
void unary(Node& n) {
  n.set(0, n.b.emit(kKind, {n.in(0)}));
}

template <OpKind kKind>
void two(Node& n) {
  n.set(0, binary(n, kKind, n.in(0), n.in(1)));
}

// Max, Min, Sum take any number of operands.
template <OpKind kKind>
void variadic(Node& n) {
  Value* total = n.in(0);
  for (std::size_t i = 1; i < n.input_count(); ++i) total = binary(n, kKind, total, n.in(i));
  n.set(0, total);
}

void mean(Node& n) {
  variadic<OpKind::Add>(n);
  n.set(0, n.b.scale(n.outputs()[0], 1.0 / static_cast<double>(n.input_count())));
}

void identity(Node& n) { n.set(0, n.in(0)); }

void cast_to(Node& n, DType dtype) { n.set(0, n.b.cast(n.in(0), dtype)); }

void cast(Node& n) {
  cast_to(n, dtype_of(static_cast<int>(n.attr("to", std::int64_t{0})), "attribute to"));
}
void cast_like(Node& n) { cast_to(n, n.in(1)->type.dtype); }

// The exponent may have another type; the result has the base's.
void pow(Node& n) {
  Value* base = n.in(0);
  Value* exponent = n.in(1);
  const DType dtype = base->type.dtype;
  const DType computed =
      !is_float(dtype) && is_float(exponent->type.dtype) ? exponent->type.dtype : dtype;
  Value* power = binary(n, OpKind::Pow, n.b.cast(base, computed), n.b.cast(exponent, computed));
  n.set(0, n.b.cast(power, dtype));
}

void mod(Node& n) {
  if (is_float(n.in(0)->type.dtype) && n.attr("fmod", std::int64_t{0}) == 0)
    n.fail("fmod = 0 is for integers");
  if (!is_float(n.in(0)->type.dtype) && n.attr("fmod", std::int64_t{0}) != 0)
    n.fail("fmod = 1 on integers is not supported");
  two<OpKind::Mod>(n);
}

Value* clipped(Node& n, Value* x, const Value* low, const Value* high) {
  if (low != nullptr) x = binary(n, OpKind::Max, x, const_cast<Value*>(low));
  if (high != nullptr) x = binary(n, OpKind::Min, x, const_cast<Value*>(high));
  return x;
}

// Limits are attributes up to opset 10, inputs later.
void clip(Node& n) {
  Value* x = n.in(0);
  if (n.opset() >= 11) {
    n.set(0, clipped(n, x, n.has(1) ? n.in(1) : nullptr, n.has(2) ? n.in(2) : nullptr));
    return;
  }
  Value* low = n.has_attr("min") ? n.b.fill(n.attr("min", 0.0), x->type.dtype, {}) : nullptr;
  Value* high = n.has_attr("max") ? n.b.fill(n.attr("max", 0.0), x->type.dtype, {}) : nullptr;
  n.set(0, clipped(n, x, low, high));
}

void leaky_relu(Node& n) {
  Value* x = n.in(0);
  Value* negative = n.b.emit(OpKind::Less, {x, n.b.fill_like(0, x)});
  n.set(0, n.b.emit(OpKind::Select, {negative, n.b.scale(x, n.attr("alpha", 0.01)), x}));
}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
void softplus(Node& n) {
  Value* x = n.in(0);
  Value* small = n.b.emit(OpKind::Exp, {n.b.neg(n.b.emit(OpKind::Abs, {x}))});
  Value* log = n.b.emit(OpKind::Log, {n.b.add(n.b.fill_like(1, small), small)});
  n.set(0, n.b.add(n.b.emit(OpKind::Relu, {x}), log));
}

void elu(Node& n) {
  Value* x = n.in(0);
  Value* exps = n.b.sub(n.b.emit(OpKind::Exp, {n.b.emit(OpKind::Min, {x, n.b.fill_like(0, x)})}),
                        n.b.fill_like(1, x));
  Value* positive = n.b.emit(OpKind::Greater, {x, n.b.fill_like(0, x)});
  n.set(0, n.b.emit(OpKind::Select, {positive, x, n.b.scale(exps, n.attr("alpha", 1.0))}));
}

void gelu(Node& n) {
  const std::string approximate = n.attr("approximate", std::string("none"));
  if (approximate != "none" && approximate != "tanh")
    n.fail(str("approximate ", in_quotes(approximate), " is unknown"));
  n.set(0, n.b.emit(approximate == "tanh" ? OpKind::GeluTanh : OpKind::Gelu, {n.in(0)}));
}

void swish(Node& n) {
  if (n.attr("alpha", 1.0) != 1.0) {
    Value* x = n.in(0);
    n.set(0, n.b.mul(x, n.b.emit(OpKind::Sigmoid, {n.b.scale(x, n.attr("alpha", 1.0))})));
  } else {
    n.set(0, n.b.emit(OpKind::Silu, {n.in(0)}));
  }
}

void tan(Node& n) {
  n.set(0, n.b.div(n.b.emit(OpKind::Sin, {n.in(0)}), n.b.emit(OpKind::Cos, {n.in(0)})));
}

void where(Node& n) {
  const Shape shape = broadcast_shape(n, {n.in(0), n.in(1), n.in(2)});
  n.set(0, n.b.emit(OpKind::Select,
                    {n.b.broadcast_to(n.in(0), shape), n.b.broadcast_to(n.in(1), shape),
                     n.b.broadcast_to(n.in(2), shape)}));
}

// Inference keeps every element; the mask output is all true (opset 12 and later: bool; before: of
// the data's type).
void dropout(Node& n) {
  const bool training = n.opset() >= 12 && n.has(2) && n.number_in(2) != 0;
  const double ratio = n.opset() >= 12 ? (n.has(1) ? n.number_in(1) : 0.5) : n.attr("ratio", 0.5);
  if (training && ratio != 0) {
    n.fail(str("dropout with ratio ", ratio, " in training mode is not supported yet"),
           {"export the model in inference mode (model.eval())"});
  }
  n.set(0, n.in(0));
  if (n.output_count() > 1)
    n.set(1, n.b.fill(1, n.opset() >= 12 ? DType::Bool : n.in(0)->type.dtype, n.in(0)->type.shape));
}

}  // namespace

void add_elementwise_ops(TranslatorTable& t) {
  t["Neg"] = unary<OpKind::Neg>;
  t["Abs"] = unary<OpKind::Abs>;
  t["Sign"] = unary<OpKind::Sign>;
  t["Floor"] = unary<OpKind::Floor>;
  t["Ceil"] = unary<OpKind::Ceil>;
  t["Round"] = unary<OpKind::Round>;
  t["Exp"] = unary<OpKind::Exp>;
  t["Log"] = unary<OpKind::Log>;
  t["Sqrt"] = unary<OpKind::Sqrt>;
  t["Reciprocal"] = unary<OpKind::Reciprocal>;
  t["Sin"] = unary<OpKind::Sin>;
  t["Cos"] = unary<OpKind::Cos>;
  t["Tan"] = tan;
  t["Tanh"] = unary<OpKind::Tanh>;
  t["Erf"] = unary<OpKind::Erf>;
  t["Sigmoid"] = unary<OpKind::Sigmoid>;
  t["Relu"] = unary<OpKind::Relu>;
  t["IsNaN"] = unary<OpKind::IsNan>;
  t["Not"] = unary<OpKind::Not>;
  t["Add"] = two<OpKind::Add>;
  t["Sub"] = two<OpKind::Sub>;
  t["Mul"] = two<OpKind::Mul>;
  t["Div"] = two<OpKind::Div>;
  t["And"] = two<OpKind::And>;
  t["Or"] = two<OpKind::Or>;
  t["Xor"] = two<OpKind::Xor>;
  t["Equal"] = two<OpKind::Equal>;
  t["Less"] = two<OpKind::Less>;
  t["LessOrEqual"] = two<OpKind::LessEqual>;
  t["Greater"] = two<OpKind::Greater>;
  t["GreaterOrEqual"] = two<OpKind::GreaterEqual>;
  t["Max"] = variadic<OpKind::Max>;
  t["Min"] = variadic<OpKind::Min>;
  t["Sum"] = variadic<OpKind::Add>;
  t["Mean"] = mean;
  t["Identity"] = identity;
  t["Cast"] = cast;
  t["CastLike"] = cast_like;
  t["Pow"] = pow;
  t["Mod"] = mod;
  t["Clip"] = clip;
  t["LeakyRelu"] = leaky_relu;
  t["Softplus"] = softplus;
  t["Elu"] = elu;
  t["Gelu"] = gelu;
  t["Swish"] = swish;
  t["Where"] = where;
  t["Dropout"] = dropout;
}

}  // namespace tessera
