// Weights: each rank maps the files and copies its own slices through the parameters' views.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <set>

#include "ir/base/diag.h"
#include "ir/base/random.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"
#include "runtime/executor.h"
#include "runtime/weight_view.h"

namespace tessera {
namespace {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) : path_(path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      throw CompileError(path.string(), str("cannot open the weights: ", std::strerror(errno)),
                         {"the plan refers to the model's own files; keep them where they were"});
    struct stat info {};
    if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
      size_ = static_cast<std::size_t>(info.st_size);
      void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
      data_ = data == MAP_FAILED ? nullptr : static_cast<const std::byte*>(data);
    }
    ::close(fd);
    if (data_ == nullptr) throw CompileError(path.string(), "is not a readable file of weights");
  }
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* range(const WeightSource& source) const {
    if (source.offset > size_ || source.bytes > size_ - source.offset) {
      throw CompileError(path_.string(),
                         str("tensor ", quoted(source.tensor), " should lie at ", source.offset,
                             " with ", source.bytes, " bytes, the file has ", size_),
                         {"the file changed since the plan was compiled"});
    }
    return data_ + source.offset;
  }

 private:
  std::filesystem::path path_;
  std::size_t size_ = 0;
  const std::byte* data_ = nullptr;
};

void check_sizes(const WeightSource& source) {
  const auto need = static_cast<std::uint64_t>(elements(source.shape)) * byte_size(source.dtype);
  if (need != source.bytes)
    throw CompileError("", str("weight ", quoted(source.tensor), " has ", source.bytes,
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
          str("tensor ", quoted(source.tensor), " is not what the plan was compiled for"),
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
    if (!file) file = std::make_unique<MappedFile>(folder / source.file);
    const Place to = find_arg(arg);
    const StridedView view = strided_view(source);
    if (view.shape != to.type->shape || source.dtype != to.type->dtype)
      throw CompileError("", str("weight %", arg, " has another type than its argument"));
    read_piece(file->range(source), view, local_offsets(*to.type, plan_.grid, at_),
               local_shape(*to.type, plan_.grid, at_), source.dtype, to.data);
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
