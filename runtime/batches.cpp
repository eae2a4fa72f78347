#include "runtime/batches.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

#include "ir/base/diag.h"
#include "ir/base/random.h"
#include "ir/base/text.h"
#include "runtime/npy.h"

namespace tessera {
namespace {

constexpr std::int64_t kIgnored = -100;

Tensor read_stream(const BatchOptions& options) {
  if (options.data.extension() == ".npy") return read_npy(options.data);
  const DType dtype = options.data_dtype == "i32"   ? DType::I32
                      : options.data_dtype == "i64" ? DType::I64
                                                    : DType::I16;
  if (options.data_dtype != "u16" && dtype == DType::I16)
    throw CompileError("--data-dtype", str("unknown dtype ", in_quotes(options.data_dtype)),
                       {"known: u16, i32, i64"});
  std::error_code error;
  const auto bytes = std::filesystem::file_size(options.data, error);
  std::ifstream in(options.data, std::ios::binary);
  if (error || !in) throw CompileError(options.data.string(), "cannot read the file");
  Tensor tensor(dtype, {static_cast<std::int64_t>(bytes / byte_size(dtype))});
  in.read(reinterpret_cast<char*>(tensor.mutable_data()),
          static_cast<std::streamsize>(tensor.bytes()));
  return tensor;
}

std::string original_name(const Plan& plan, const std::string& arg) {
  const auto found = plan.notes.find("input." + arg);
  return found == plan.notes.end() ? arg : found->second;
}

// A number in the plan's notes, after `skip` characters.
std::int64_t noted(const Plan& plan, const std::string& name, std::size_t skip = 0) {
  const std::string& text = plan.notes.at(name);
  const char* end = text.data() + text.size();
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data() + std::min(skip, text.size()), end, value);
  if (result.ec != std::errc() || result.ptr != end)
    throw CompileError(kPlanFile, str("note ", name, " is ", in_quotes(text), ", not a number"));
  return value;
}

// An input whose batch the plan computes in parts has a leading dimension that counts them; the
// host need not know.
Type with_whole_batch(const Plan& plan, const PlanValue& input) {
  Type type = input.type.logical();
  const std::string note = str(kSubBatchesNote, input.name);
  if (!plan.notes.contains(note)) return type;
  const std::int64_t parts = noted(plan, note);
  if (type.rank() < 2 || type.shape[0] != parts)
    throw CompileError(kPlanFile, str("note ", note, " is ", parts, ", %", input.name, " is ",
                                      to_text(type, Grid())));
  Shape whole(type.shape.begin() + 1, type.shape.end());
  whole[0] *= parts;
  return Type(type.dtype, whole);
}

}  // namespace

Batches::Batches(const Plan& plan, const BatchOptions& options) : plan_(plan), options_(options) {
  const PlanFunc* body = plan.find("micro") != nullptr ? plan.find("micro") : plan.find("forward");
  TESSERA_CHECK(body != nullptr, "the plan has neither @micro nor @forward");
  if (plan.notes.contains("labels")) labels_ = plan.notes.at("labels");
  for (const PlanArg& arg : body->args) {
    const PlanValue& value = body->values[static_cast<std::size_t>(arg.value)];
    if (arg.role != ArgRole::Input) continue;
    types_[value.name] = with_whole_batch(plan, value);
    shapes_[value.name] = value.type.shape;
  }
  for (const auto& [given, path] : options.inputs) {
    std::string name;
    for (const auto& [arg, type] : types_) {
      if (arg == given || original_name(plan, arg) == given) name = arg;
    }
    if (name.empty()) {
      throw CompileError(
          "--input", str("the plan has no input ", in_quotes(given)),
          {str("inputs: ", join(types_, ", ", [](const auto& item) { return item.first; }))});
    }
    fixed_[name] = read_npy(path);
  }
  if (!options.data.empty()) {
    stream_ = read_stream(options);
    tokens_ = options.tokens;
    for (const auto& [name, type] : types_) {
      if (!options.tokens.empty() || name == labels_ || !is_integer(type.dtype) ||
          fixed_.contains(name))
        continue;
      if (!tokens_.empty())
        throw CompileError(
            "--tokens", str("both ", tokens_, " and ", name, " could take the tokens; name one"));
      tokens_ = name;
    }
    if (!types_.contains(tokens_))
      throw CompileError("--tokens", str("the plan has no integer input ", in_quotes(tokens_)));
  }
  for (const auto& [name, type] : types_) {
    const bool given =
        fixed_.contains(name) || (!tokens_.empty() && (name == tokens_ || name == labels_));
    if (!given)
      throw CompileError(
          "--input", str("input ", in_quotes(name), " ", to_text(type, Grid()), " is not given"),
          {str("give --input ", name, "=FILE.npy, or --data TOKENS for tokens and labels")});
  }
  const std::string& lead =
      !labels_.empty() ? labels_ : (types_.empty() ? labels_ : types_.begin()->first);
  if (types_.contains(lead) && types_.at(lead).rank() > 0) {
    batch_ = plan.notes.contains("batch") ? noted(plan, "batch")
                                          : types_.at(lead).shape[0] * plan.micro_batches;
    tokens_per_step_ = batch_ * (elements(types_.at(lead).shape) /
                                 std::max<std::int64_t>(1, types_.at(lead).shape[0]));
  }
}

std::int64_t Batches::token(std::int64_t at) const {
  const auto i = static_cast<std::size_t>(at);
  if (stream_.dtype() == DType::I16)
    return static_cast<std::uint16_t>(stream_.view<std::int16_t>()[i]);
  return static_cast<std::int64_t>(stream_.number(at));
}

// Sample g of a step is a window [S+1] of the stream: tokens are its first S, labels its last S.
Tensor Batches::sampled(const std::string& name, const Type& type, std::int64_t step,
                        std::int64_t micro, bool label) const {
  if (type.rank() != 2 || type.dtype != DType::I64) {
    throw CompileError("--data", str("input ", in_quotes(name), " is ", to_text(type, Grid()),
                                     "; windows of tokens are i64 of rank 2"));
  }
  Tensor out(type.dtype, type.shape);
  const std::int64_t length = type.shape[1];
  if (stream_.size() < length + 1)
    throw CompileError(options_.data.string(),
                       str("has ", stream_.size(), " tokens, a window needs ", length + 1));
  for (std::int64_t i = 0; i < type.shape[0]; ++i) {
    const std::int64_t sample = micro * type.shape[0] + i;
    const std::uint64_t bits = random_bits(options_.seed, static_cast<std::uint64_t>(step),
                                           static_cast<std::uint64_t>(sample));
    const auto start =
        static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(stream_.size() - length));
    for (std::int64_t s = 0; s < length; ++s) {
      std::int64_t& element =
          out.mutable_view<std::int64_t>()[static_cast<std::size_t>(i * length + s)];
      element = sample >= batch_ ? (label ? kIgnored : 0) : token(start + s + (label ? 1 : 0));
    }
  }
  return out;
}

// Rows [micro * b, micro * b + b) of a fixed input; what lies beyond its end is padding: ignored
// labels, zeros elsewhere.
Tensor Batches::fixed_part(const std::string& name, const Type& type, std::int64_t micro) const {
  const Tensor& whole = fixed_.at(name);
  if (whole.dtype() == type.dtype && whole.shape() == type.shape && plan_.micro_batches == 1)
    return whole;
  bool fits = whole.dtype() == type.dtype && type.rank() > 0 && whole.shape().size() == type.rank();
  for (std::size_t d = 1; fits && d < type.rank(); ++d) fits = whole.shape()[d] == type.shape[d];
  const std::int64_t rows = type.rank() > 0 ? type.shape[0] : 1;
  if (!fits || whole.shape()[0] != batch_) {
    Shape wanted = type.shape;
    if (!wanted.empty()) wanted[0] = batch_;
    throw CompileError(
        "--input", str(in_quotes(name), " is ", to_text(Type(whole.dtype(), whole.shape()), Grid()),
                       ", the plan needs ", to_text(Type(type.dtype, wanted), Grid())));
  }
  Tensor out(type.dtype, type.shape);
  const std::size_t row_bytes = rows == 0 ? 0 : out.bytes() / static_cast<std::size_t>(rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t from = micro * rows + i;
    std::byte* target = out.mutable_data() + static_cast<std::size_t>(i) * row_bytes;
    if (from < batch_) {
      std::memcpy(target, whole.data() + static_cast<std::size_t>(from) * row_bytes, row_bytes);
    } else if (name == labels_ && type.dtype == DType::I64) {
      for (std::size_t k = 0; k < row_bytes / sizeof kIgnored; ++k)
        std::memcpy(target + k * sizeof kIgnored, &kIgnored, sizeof kIgnored);
    }
  }
  return out;
}

void Batches::check_range(const std::string& name, const Tensor& tensor, std::int64_t step) const {
  std::int64_t high = -1;
  if (name == labels_ && plan_.notes.contains("classes")) high = noted(plan_, "classes");
  const std::string range = "range." + name;
  if (plan_.notes.contains(range)) high = noted(plan_, range, std::strlen("0,"));
  if (high < 0 || !is_integer(tensor.dtype())) return;
  std::optional<std::int64_t> ignored;
  if (name == labels_) ignored = kIgnored;
  if (plan_.notes.contains("ignored." + name)) ignored = noted(plan_, "ignored." + name);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const std::int64_t value = tensor.dtype() == DType::I64
                                   ? tensor.view<std::int64_t>()[static_cast<std::size_t>(i)]
                                   : static_cast<std::int64_t>(tensor.number(i));
    const bool fine = (value >= 0 && value < high) || value == ignored;
    if (fine) continue;
    throw CompileError(
        str("step ", step),
        str("input ", in_quotes(name), " has the value ", value, ", which is not in [0, ", high,
            ")"),
        {name == labels_ ? "labels are classes, or -100 where they do not count"
                         : "ids must be smaller than the table they are looked up in"});
  }
}

std::map<std::string, Tensor> Batches::micro_batch(std::int64_t step, std::int64_t micro) const {
  std::map<std::string, Tensor> batch;
  for (const auto& [name, type] : types_) {
    const bool from_stream = !tokens_.empty() && !fixed_.contains(name);
    batch[name] = from_stream ? sampled(name, type, step, micro, name == labels_)
                              : fixed_part(name, type, micro);
    check_range(name, batch[name], step);
    batch[name] = batch[name].reshaped(shapes_.at(name));
  }
  return batch;
}

Tensor Batches::stacked_labels(std::int64_t step) const {
  if (labels_.empty()) return {};
  const Type& type = types_.at(labels_);
  Shape shape = type.shape;
  shape.insert(shape.begin(), plan_.micro_batches);
  Tensor stacked(type.dtype, shape);
  const std::size_t bytes = stacked.bytes() / static_cast<std::size_t>(plan_.micro_batches);
  for (std::int64_t micro = 0; micro < plan_.micro_batches; ++micro) {
    const bool from_stream = !tokens_.empty() && !fixed_.contains(labels_);
    const Tensor part =
        from_stream ? sampled(labels_, type, step, micro, true) : fixed_part(labels_, type, micro);
    std::memcpy(stacked.mutable_data() + static_cast<std::size_t>(micro) * bytes, part.data(),
                bytes);
  }
  return stacked;
}

}  // namespace tessera
