#include "frontend/zoo.h"

#include <onnx/onnx_pb.h>

#include <cmath>

#include "ir/base/attr.h"
#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/shape.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

int onnx_type(DType dtype) {
  return dtype == DType::BF16  ? onnx::TensorProto::BFLOAT16
         : dtype == DType::F16 ? onnx::TensorProto::FLOAT16
                               : onnx::TensorProto::FLOAT;
}

// Appends nodes and initializers to a graph; values are names.
class Writer {
 public:
  Writer(onnx::GraphProto& graph, DType dtype, std::string data_file)
      : graph_(graph), dtype_(dtype), data_file_(std::move(data_file)) {}

  std::string node(const std::string& op, const Names& inputs,
                   const std::vector<std::pair<std::string, Attr>>& attrs = {},
                   const std::string& output = "") {
    onnx::NodeProto& n = *graph_.add_node();
    n.set_op_type(op);
    n.set_name(str("node_", op, "_", count_));
    for (const std::string& input : inputs) n.add_input(input);
    n.add_output(output.empty() ? str("val_", count_) : output);
    ++count_;
    for (const auto& [name, value] : attrs) add_attr(n, name, value);
    return n.output(0);
  }

  Names split(const std::string& x, std::int64_t parts) {
    onnx::NodeProto& n = *graph_.add_node();
    n.set_op_type("Split");
    n.set_name(str("node_Split_", count_));
    n.add_input(x);
    add_attr(n, "axis", std::int64_t{-1});
    add_attr(n, "num_outputs", parts);
    Names outputs;
    for (std::int64_t i = 0; i < parts; ++i) {
      outputs.push_back(str("val_", count_++));
      n.add_output(outputs.back());
    }
    return outputs;
  }

  // A weight in the absent file.
  std::string weight(const std::string& name, const Shape& shape) {
    onnx::TensorProto& t = *graph_.add_initializer();
    t.set_name(name);
    t.set_data_type(onnx_type(dtype_));
    for (const std::int64_t size : shape) t.add_dims(size);
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto bytes = elements(shape) * static_cast<std::int64_t>(byte_size(dtype_));
    for (const auto& [key, value] :
         {std::pair{"location", data_file_}, {"offset", str(offset_)}, {"length", str(bytes)}}) {
      auto& entry = *t.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    offset_ += bytes;
    return name;
  }

  std::string integers(const Ints& values) {
    std::string name = str("ints_", count_++);
    onnx::TensorProto& t = *graph_.add_initializer();
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::INT64);
    t.add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) t.add_int64_data(value);
    return name;
  }

  // A scalar of the model's dtype.
  std::string scalar(double value) {
    std::string name = str("scalar_", count_++);
    onnx::TensorProto& t = *graph_.add_initializer();
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::FLOAT);
    t.add_float_data(static_cast<float>(value));
    return dtype_ == DType::F32 ? name
                                : node("Cast", {name}, {{"to", std::int64_t{onnx_type(dtype_)}}});
  }

  std::string linear(const std::string& x, const std::string& name, std::int64_t in,
                     std::int64_t out, bool bias) {
    const std::string y = node("MatMul", {x, weight(str(name, ".weight"), {in, out})});
    return bias ? node("Add", {y, weight(str(name, ".bias"), {out})}) : y;
  }

 private:
  static void add_attr(onnx::NodeProto& n, const std::string& name, const Attr& value) {
    onnx::AttributeProto& a = *n.add_attribute();
    a.set_name(name);
    if (const auto* i = std::get_if<std::int64_t>(&value)) {
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(*i);
    } else if (const auto* f = std::get_if<double>(&value)) {
      a.set_type(onnx::AttributeProto::FLOAT);
      a.set_f(static_cast<float>(*f));
    } else if (const auto* list = std::get_if<Ints>(&value)) {
      a.set_type(onnx::AttributeProto::INTS);
      for (const std::int64_t item : *list) a.add_ints(item);
    }
  }

  onnx::GraphProto& graph_;
  DType dtype_;
  std::string data_file_;
  std::int64_t offset_ = 0;
  int count_ = 0;
};

class Model {
 public:
  Model(const ZooModel& m, Writer& w) : m_(m), w_(w), head_(m.hidden / m.heads) {}

  void gpt() {
    const std::string wte = w_.weight("transformer.wte.weight", {m_.vocabulary, m_.hidden});
    const std::string wpe = w_.weight("transformer.wpe.weight", {m_.sequence, m_.hidden});
    std::string x = w_.node(
        "Add", {w_.node("Gather", {wte, "input_ids"}), w_.node("Gather", {wpe, positions()})});
    const std::string keep = causal();
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      const std::string p = str("transformer.h.", i, ".");
      const Names qkv = w_.split(w_.linear(layer_norm(x, str(p, "ln_1")), str(p, "attn.c_attn"),
                                           m_.hidden, 3 * m_.hidden, true),
                                 3);
      const std::string a = attention(heads(qkv[0], m_.heads), heads(qkv[1], m_.heads),
                                      heads(qkv[2], m_.heads), keep);
      x = w_.node("Add", {x, w_.linear(a, str(p, "attn.c_proj"), m_.hidden, m_.hidden, true)});
      std::string h =
          w_.linear(layer_norm(x, str(p, "ln_2")), str(p, "mlp.c_fc"), m_.hidden, m_.mlp, true);
      h = w_.linear(gelu(h), str(p, "mlp.c_proj"), m_.mlp, m_.hidden, true);
      x = w_.node("Add", {x, h});
    }
    x = layer_norm(x, "transformer.ln_f");
    w_.node("MatMul", {x, w_.node("Transpose", {wte}, {{"perm", Ints{1, 0}}})}, {}, "logits");
  }

  void llama() {
    const std::string table = w_.weight("model.embed_tokens.weight", {m_.vocabulary, m_.hidden});
    std::string x = w_.node("Gather", {table, "input_ids"});
    rotary_tables();
    const std::string keep = causal();
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      const std::string p = str("model.layers.", i, ".");
      const std::string n = rms_norm(x, str(p, "input_layernorm"));
      const auto project = [&](const char* name, std::int64_t count) {
        return heads(w_.linear(n, str(p, "self_attn.", name), m_.hidden, count * head_, false),
                     count);
      };
      const std::string q = rotated(project("q_proj", m_.heads));
      const std::string k = repeated(rotated(project("k_proj", m_.kv_heads)));
      const std::string v = repeated(project("v_proj", m_.kv_heads));
      const std::string a = attention(q, k, v, keep);
      x = w_.node("Add",
                  {x, w_.linear(a, str(p, "self_attn.o_proj"), m_.hidden, m_.hidden, false)});
      const std::string h = rms_norm(x, str(p, "post_attention_layernorm"));
      const std::string gate = w_.linear(h, str(p, "mlp.gate_proj"), m_.hidden, m_.mlp, false);
      const std::string up = w_.linear(h, str(p, "mlp.up_proj"), m_.hidden, m_.mlp, false);
      const std::string silu = w_.node("Mul", {gate, w_.node("Sigmoid", {gate})});
      x = w_.node("Add", {x, w_.linear(w_.node("Mul", {silu, up}), str(p, "mlp.down_proj"), m_.mlp,
                                       m_.hidden, false)});
    }
    x = rms_norm(x, "model.norm");
    w_.node("MatMul", {x, w_.weight("lm_head.weight", {m_.hidden, m_.vocabulary})}, {}, "logits");
  }

 private:
  std::string whole_number(std::int64_t value) {
    return w_.node("Squeeze", {w_.integers({value})});
  }
  std::string positions() {
    if (!positions_.empty()) return positions_;
    const std::string length =
        w_.node("Gather", {w_.node("Shape", {"input_ids"}), whole_number(1)});
    positions_ = w_.node("Range", {whole_number(0), length, whole_number(1)});
    return positions_;
  }

  // bool [S, S]: true where the key is not later than the query.
  std::string causal() {
    const std::string rows = w_.node("Unsqueeze", {positions(), w_.integers({1})});
    const std::string columns = w_.node("Unsqueeze", {positions(), w_.integers({0})});
    hidden_ = w_.scalar(-HUGE_VAL);
    return w_.node("LessOrEqual", {columns, rows});
  }

  std::string layer_norm(const std::string& x, const std::string& name) {
    return w_.node("LayerNormalization",
                   {x, w_.weight(str(name, ".weight"), {m_.hidden}),
                    w_.weight(str(name, ".bias"), {m_.hidden})},
                   {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}});
  }

  std::string rms_norm(const std::string& x, const std::string& name) {
    const std::string mean = w_.node("ReduceMean", {w_.node("Mul", {x, x}), w_.integers({-1})});
    const std::string root = w_.node("Sqrt", {w_.node("Add", {mean, w_.scalar(1e-5)})});
    const std::string normed = w_.node("Mul", {x, w_.node("Reciprocal", {root})});
    return w_.node("Mul", {w_.weight(str(name, ".weight"), {m_.hidden}), normed});
  }

  std::string gelu(const std::string& x) {
    const std::string cube = w_.node("Mul", {w_.node("Mul", {x, x}), x});
    const std::string inner = w_.node("Add", {x, w_.node("Mul", {cube, w_.scalar(0.044715)})});
    const std::string t =
        w_.node("Tanh", {w_.node("Mul", {inner, w_.scalar(std::sqrt(2 / M_PI))})});
    return w_.node("Mul", {w_.node("Mul", {x, w_.scalar(0.5)}), w_.node("Add", {t, w_.scalar(1)})});
  }

  // [b, S, count * d] -> [b, count, S, d]
  std::string heads(const std::string& x, std::int64_t count) {
    const std::string cut = w_.node("Reshape", {x, w_.integers({0, 0, count, head_})});
    return w_.node("Transpose", {cut}, {{"perm", Ints{0, 2, 1, 3}}});
  }

  std::string attention(const std::string& q, const std::string& k, const std::string& v,
                        const std::string& keep) {
    const std::string kt = w_.node("Transpose", {k}, {{"perm", Ints{0, 1, 3, 2}}});
    const std::string scores = w_.node(
        "Mul", {w_.node("MatMul", {q, kt}), w_.scalar(1 / std::sqrt(static_cast<double>(head_)))});
    const std::string masked = w_.node("Where", {keep, scores, hidden_});
    const std::string weights = w_.node("Softmax", {masked}, {{"axis", std::int64_t{-1}}});
    const std::string out =
        w_.node("Transpose", {w_.node("MatMul", {weights, v})}, {{"perm", Ints{0, 2, 1, 3}}});
    return w_.node("Reshape", {out, w_.integers({0, 0, m_.hidden})});
  }

  void rotary_tables() {
    Ints halves;
    const std::string steps =
        w_.node("Range", {whole_number(0), whole_number(head_ / 2), whole_number(1)});
    const std::string exponent =
        w_.node("Mul", {w_.node("Cast", {steps}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}}),
                        f32(-2.0 / static_cast<double>(head_))});
    const std::string frequency = w_.node("Pow", {f32(10000), exponent});
    const std::string position =
        w_.node("Cast", {w_.node("Unsqueeze", {positions(), w_.integers({1})})},
                {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
    const std::string angle = w_.node("Mul", {position, frequency});
    const std::string both = w_.node("Concat", {angle, angle}, {{"axis", std::int64_t{-1}}});
    const auto typed = [&](const std::string& x) {
      return m_.dtype == DType::F32
                 ? x
                 : w_.node("Cast", {x}, {{"to", std::int64_t{onnx_type(m_.dtype)}}});
    };
    cos_ = typed(w_.node("Cos", {both}));
    sin_ = typed(w_.node("Sin", {both}));
  }
  std::string f32(double value) {
    return w_.node("Cast", {w_.scalar(value)}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
  }

  std::string part(const std::string& x, std::int64_t from, std::int64_t to) {
    return w_.node("Slice", {x, w_.integers({from}), w_.integers({to}), w_.integers({3})});
  }
  std::string rotated(const std::string& x) {
    const std::string low = part(x, 0, head_ / 2), high = part(x, head_ / 2, head_);
    const std::string turned =
        w_.node("Concat", {w_.node("Neg", {high}), low}, {{"axis", std::int64_t{-1}}});
    return w_.node("Add", {w_.node("Mul", {x, cos_}), w_.node("Mul", {turned, sin_})});
  }

  // Key and value heads repeated for the query heads that share them.
  std::string repeated(const std::string& x) {
    const std::int64_t times = m_.heads / m_.kv_heads;
    if (times == 1) return x;
    const std::string extra = w_.node("Unsqueeze", {x, w_.integers({2})});
    const std::string copies = w_.node("Expand", {extra, w_.integers({1, 1, times, 1, 1})});
    return w_.node("Reshape", {copies, w_.integers({0, m_.heads, -1, head_})});
  }

  const ZooModel& m_;
  Writer& w_;
  std::int64_t head_;
  std::string positions_, hidden_, cos_, sin_;
};

void check(const ZooModel& m) {
  const auto refuse = [](const std::string& what) { throw CompileError("zoo", what); };
  if (m.family != "gpt" && m.family != "llama")
    refuse(str("there is no family ", in_quotes(m.family), "; there are gpt and llama"));
  for (const auto& [name, value] : {std::pair{"--layers", m.layers},
                                    {"--hidden", m.hidden},
                                    {"--heads", m.heads},
                                    {"--vocab", m.vocabulary},
                                    {"--sequence", m.sequence},
                                    {"--kv-heads", m.kv_heads},
                                    {"--mlp", m.mlp}}) {
    if (value < 1 || value > (std::int64_t{1} << 24))
      refuse(str(name, " ", value, " is out of range"));
  }
  if (m.hidden % m.heads != 0)
    refuse(str("--hidden ", m.hidden, " is no multiple of --heads ", m.heads));
  if (m.heads % m.kv_heads != 0)
    refuse(str("--heads ", m.heads, " is no multiple of --kv-heads ", m.kv_heads));
  if (m.family == "llama" && m.hidden / m.heads % 2 != 0)
    refuse(str("rotary positions need an even head size, not ", m.hidden / m.heads));
  if (m.family == "gpt" && m.kv_heads != m.heads) refuse("--kv-heads is for llama");
}

void add_value(onnx::ValueInfoProto& value, const char* name, int type,
               const std::vector<std::pair<std::string, std::int64_t>>& dims) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  for (const auto& [symbol, size] : dims) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (symbol.empty()) {
      dim.set_dim_value(size);
    } else {
      dim.set_dim_param(symbol);
    }
  }
}

}  // namespace

void write_zoo_model(const ZooModel& wanted, const std::filesystem::path& path) {
  ZooModel m = wanted;
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.mlp == 0) m.mlp = m.family == "llama" ? (m.hidden * 8 / 3 + 255) / 256 * 256 : 4 * m.hidden;
  check(m);
  onnx::ModelProto model;
  model.set_ir_version(9);
  model.set_producer_name("tessera zoo");
  auto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(18);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name(m.family);
  add_value(*graph.add_input(), "input_ids", onnx::TensorProto::INT64,
            {{"batch", 0}, {"sequence", 0}});
  add_value(*graph.add_output(), "logits", onnx_type(m.dtype),
            {{"batch", 0}, {"sequence", 0}, {"", m.vocabulary}});
  Writer writer(graph, m.dtype, path.filename().string() + ".data");
  Model builder(m, writer);
  m.family == "gpt" ? builder.gpt() : builder.llama();
  write_atomically(path, [&](std::ostream& out) {
    if (!model.SerializeToOstream(&out))
      throw CompileError(path.string(), "cannot write the model");
  });
}

}  // namespace tessera
