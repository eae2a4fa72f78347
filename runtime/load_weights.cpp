// Weights: each rank maps the files and copies its own slices through the parameters' views.
#include <cmath>
#include <cstring>
#include <set>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/random.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"
#include "runtime/executor.h"
#include "runtime/weight_view.h"

namespace tessera {
namespace {

constexpr const char* kKeepModel =
    "the plan refers to the model's own files; keep them where they were (or --random-weights "
    "SEED)";

const std::byte* range(const MappedFile& file, const std::filesystem::path& path,
                       const WeightSource& source) {
  if (source.offset > file.size() || source.bytes > file.size() - source.offset) {
    throw CompileError(path.string(),
                       str("tensor ", in_quotes(source.tensor), " should lie at ", source.offset,
                           " with ", source.bytes, " bytes, the file has ", file.size()),
                       {"the file changed since the plan was compiled"});
  }
  return file.data() + source.offset;
}

void check_sizes(const WeightSource& source) {
  const auto need = static_cast<std::uint64_t>(elements(source.shape)) * byte_size(source.dtype);
  if (need != source.bytes)
    throw CompileError("", str("weight ", in_quotes(source.tensor), " has ", source.bytes,
                               " bytes, its shape needs ", need));
}

void check_hashes(const Plan& plan, const std::filesystem::path& folder) {
  std::set<std::string> done;
  for (const auto& [arg, source] : plan.weights) {
    if (source.sha256.empty() ||
        !done.insert(str(source.file, "@", source.offset, "+", source.bytes)).second)
      continue;
    if (sha256_of_file(folder / source.file, source.offset, source.bytes) != source.sha256) {
      throw CompileError(
          (folder / source.file).string(),
          str("tensor ", in_quotes(source.tensor), " is not what the plan was compiled for"),
          {"the file changed; compile the plan again"});
    }
  }
}

// A normal deviate by Box-Muller from one counter.
double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const double u = random_uniform(seed, stream, 2 * index);
  const double v = random_uniform(seed, stream, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(1.0 - u)) * std::cos(2.0 * M_PI * v);
}

std::uint64_t stream_of(const std::string& name) {
  std::uint64_t hash = 14695981039346656037ull;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

// Vectors called ...weight are norm weights: around 1. Everything else is small.
void fill_random(const WeightSource& source, const StridedView& view, const Shape& start,
                 const Shape& shape, std::uint64_t seed, std::byte* out) {
  const bool norm = source.shape.size() == 1 && source.tensor.ends_with("weight");
  const std::uint64_t stream = stream_of(source.tensor);
  const std::int64_t count = elements(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at = view.offset;
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += (rest % shape[d] + start[d]) * view.strides[d];
      rest /= shape[d];
    }
    const double value =
        0.02 * normal(seed, stream, static_cast<std::uint64_t>(at)) + (norm ? 1.0 : 0.0);
    if (source.dtype == DType::F64) {
      reinterpret_cast<double*>(out)[i] = value;
    } else {
      reinterpret_cast<float*>(out)[i] = static_cast<float>(value);
    }
  }
}

}  // namespace

void Executor::load_weights(const std::filesystem::path& folder, bool verify_hashes) {
  std::map<std::string, std::unique_ptr<MappedFile>> files;
  for (const auto& [arg, source] : plan_.weights) {
    check_sizes(source);
    std::unique_ptr<MappedFile>& file = files[source.file];
    if (!file) file = std::make_unique<MappedFile>(folder / source.file, kKeepModel);
    const Place to = find_arg(arg);
    const StridedView view = strided_view(source);
    if (view.shape != to.type->shape || source.dtype != to.type->dtype)
      throw CompileError("", str("weight %", arg, " has another type than its argument"));
    read_piece(range(*file, folder / source.file, source), view,
               local_offsets(*to.type, plan_.grid, at_), local_shape(*to.type, plan_.grid, at_),
               source.dtype, to.data);
  }
  if (verify_hashes && world_.rank() == 0) check_hashes(plan_, folder);
}

void Executor::randomize_weights(std::uint64_t seed) {
  for (const auto& [arg, source] : plan_.weights) {
    const Place to = find_arg(arg);
    fill_random(source, strided_view(source), local_offsets(*to.type, plan_.grid, at_),
                local_shape(*to.type, plan_.grid, at_), seed, to.data);
  }
}

}  // namespace tessera
