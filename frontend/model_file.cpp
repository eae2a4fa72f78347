#include "frontend/model_file.h"

#include <fcntl.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

constexpr std::uint64_t kInlineRawData = 1024;  // larger raw_data is not copied
constexpr std::uint64_t kMaxProtoBytes = 1u << 30;

// Copies protobuf wire data, leaving out the large raw_data of graph.initializer and noting where
// it lies.
class ShallowCopy {
 public:
  ShallowCopy(const MappedFile& file, std::string where) : file_(file), where_(std::move(where)) {}

  std::string run() { return message(0, file_.size(), 0); }
  const std::map<std::string, ByteRange>& raw() const { return raw_; }

 private:
  [[noreturn]] void refuse() const {
    throw CompileError(where_, "is not an ONNX model, or is damaged",
                       {"the protobuf encoding ends early or is malformed"});
  }

  std::uint64_t varint(std::size_t& at, std::size_t end) const {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= end) refuse();
      const auto byte = std::to_integer<std::uint8_t>(file_.data()[at++]);
      value |= static_cast<std::uint64_t>(byte & 127u) << shift;
      if ((byte & 128u) == 0) return value;
    }
    refuse();
  }

  static void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 128; value >>= 7) out += static_cast<char>((value & 127u) | 128u);
    out += static_cast<char>(value);
  }

  // depth 0: ModelProto (graph is field 7), 1: GraphProto (initializer is 5), 2: TensorProto (name
  // 8, raw_data 9).
  std::string message(std::size_t at, std::size_t end, int depth) {
    std::string out, name;
    ByteRange raw;
    bool has_raw = false;
    while (at < end) {
      const std::size_t field_start = at;
      const std::uint64_t tag = varint(at, end);
      const auto wire = static_cast<int>(tag & 7u);
      const std::uint64_t field = tag >> 3;
      std::size_t length = 0;
      if (wire == 0) {
        varint(at, end);
      } else if (wire == 1 || wire == 5) {
        length = wire == 1 ? 8 : 4;
      } else if (wire == 2) {
        const std::uint64_t declared = varint(at, end);
        if (declared > end - at) refuse();
        length = static_cast<std::size_t>(declared);
      } else {
        refuse();
      }
      if (length > end - at) refuse();
      const bool descends = wire == 2 && ((depth == 0 && field == 7) || (depth == 1 && field == 5));
      const bool is_raw = wire == 2 && depth == 2 && field == 9;
      if (descends) {
        const std::string inner = message(at, at + length, depth + 1);
        put_varint(out, tag);
        put_varint(out, inner.size());
        out += inner;
      } else if (is_raw && length > kInlineRawData) {
        // left out
      } else {
        out.append(reinterpret_cast<const char*>(file_.data()) + field_start,
                   at + length - field_start);
      }
      if (is_raw) raw = {at, length};
      has_raw = has_raw || is_raw;
      if (depth == 2 && field == 8 && wire == 2)
        name.assign(reinterpret_cast<const char*>(file_.data()) + at, length);
      at += length;
      if (out.size() > kMaxProtoBytes)
        throw CompileError(where_, "the graph without its weights is larger than 1 GiB");
    }
    if (has_raw) raw_[name] = raw;
    return out;
  }

  const MappedFile& file_;
  std::string where_;
  std::map<std::string, ByteRange> raw_;
};

std::uint64_t parse_number(const std::string& text, const std::string& key,
                           const std::string& where) {
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    throw CompileError(where, str("external data ", key, " ", in_quotes(text), " is not a number"));
  }
  return value;
}

constexpr int kAbsent = -1;

// Opens without following links, and checks the opened file itself. kAbsent if there is no such
// file.
int open_beside(const std::filesystem::path& folder, const std::string& location,
                const std::string& where) {
  const std::filesystem::path relative(location);
  bool inside = !location.empty() && relative.is_relative() &&
                location.find('\0') == std::string::npos && location.size() < 4096;
  for (const auto& part : relative) inside = inside && part != ".." && part != ".";
  if (!inside) {
    throw CompileError(where,
                       str("external data location ", in_quotes(location.substr(0, 200)),
                           " leaves the model's folder"),
                       {"locations are relative paths below the model's folder"});
  }
  int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (auto it = relative.begin(); it != relative.end() && fd >= 0; ++it) {
    const bool last = std::next(it) == relative.end();
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    const int next = ::openat(fd, it->c_str(), flags);
    const int error = errno;
    ::close(fd);
    errno = error;
    fd = next;
  }
  if (fd < 0 && errno == ENOENT) return kAbsent;
  if (fd < 0)
    throw CompileError(where, str("cannot open external data ", in_quotes(location)),
                       {std::strerror(errno), "symbolic links are not followed"});
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1) {
    ::close(fd);
    throw CompileError(
        where, str("external data ", in_quotes(location), " is not a regular file with one name"));
  }
  return fd;
}

void read_exactly(int fd, std::byte* data, std::size_t count, std::uint64_t offset,
                  const std::string& where) {
  while (count > 0) {
    const ssize_t got = ::pread(fd, data, count, static_cast<off_t>(offset));
    if (got <= 0)
      throw CompileError(where, "the weights end before they should, or cannot be read");
    data += got;
    count -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

template <class Field, class T>
void copy_typed(const Field& field, Tensor& tensor, const std::string& where) {
  if (field.size() != tensor.size()) {
    throw CompileError(where,
                       str("has ", field.size(), " values, its dimensions need ", tensor.size()));
  }
  auto out = tensor.mutable_view<T>();
  for (int i = 0; i < field.size(); ++i)
    out[static_cast<std::size_t>(i)] = static_cast<T>(field.Get(i));
}

}  // namespace

ModelFile::ModelFile(const std::filesystem::path& path)
    : path_(path), proto_(std::make_unique<onnx::ModelProto>()) {
  const MappedFile file(path);
  ShallowCopy copy(file, path.string());
  const std::string bytes = copy.run();
  raw_ = copy.raw();
  if (!proto_->ParseFromString(bytes) || !proto_->has_graph()) {
    throw CompileError(path.string(), "is not an ONNX model, or is damaged");
  }
}

ModelFile::~ModelFile() = default;

const onnx::GraphProto& ModelFile::model_graph() const { return proto_->graph(); }

std::pair<std::string, ByteRange> ModelFile::external_location(
    const onnx::TensorProto& tensor) const {
  const std::string where = str(path_.string(), ": tensor ", in_quotes(tensor.name()));
  std::string location;
  ByteRange range;
  bool has_length = false;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") range.offset = parse_number(entry.value(), "offset", where);
    if (entry.key() == "length") {
      range.size = parse_number(entry.value(), "length", where);
      has_length = true;
    }
  }
  const int fd = open_beside(path_.parent_path(), location, where);
  struct stat info {};
  if (fd != kAbsent) {
    ::fstat(fd, &info);
    ::close(fd);
  }
  const auto file_size = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t expected = static_cast<std::uint64_t>(elements(shape_of(tensor, where))) *
                                 byte_size(dtype_of(tensor.data_type(), where));
  if (!has_length) range.size = expected;
  if (range.size != expected) {
    throw CompileError(where, str("external data length ", range.size, " but the dimensions need ",
                                  expected, " bytes"));
  }
  if (range.size > UINT64_MAX - range.offset) {
    throw CompileError(where, "external data offset and length overflow");
  }
  if (fd != kAbsent && range.offset + range.size > file_size) {
    throw CompileError(where, str("external data offset ", range.offset, " length ", range.size,
                                  " but ", location, " has ", file_size, " bytes"));
  }
  return {location, range};
}

bool ModelFile::has_data(const onnx::TensorProto& tensor) const {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return true;
  const std::string file = external_location(tensor).first;
  const auto known = present_.find(file);
  if (known != present_.end()) return known->second;
  std::error_code error;
  return present_[file] = std::filesystem::exists(path_.parent_path() / file, error);
}

std::pair<std::string, ByteRange> ModelFile::location(const onnx::TensorProto& tensor) const {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return external_location(tensor);
  const auto raw = raw_.find(tensor.name());
  if (raw == raw_.end()) return {"", {}};
  const std::string where = str(path_.string(), ": tensor ", in_quotes(tensor.name()));
  const std::uint64_t expected = static_cast<std::uint64_t>(elements(shape_of(tensor, where))) *
                                 byte_size(dtype_of(tensor.data_type(), where));
  if (raw->second.size != expected) {
    throw CompileError(where,
                       str("has ", raw->second.size, " bytes, its dimensions need ", expected));
  }
  return {path_.filename().string(), raw->second};
}

Tensor ModelFile::read(const onnx::TensorProto& tensor) const {
  const std::string where = str(path_.string(), ": tensor ", in_quotes(tensor.name()));
  Tensor result(dtype_of(tensor.data_type(), where), shape_of(tensor, where));
  const auto [file, range] = location(tensor);
  if (tensor.has_raw_data() && file.empty()) {  // a tensor of an attribute
    if (tensor.raw_data().size() != result.bytes())
      throw CompileError(where, "raw data does not match the dimensions");
    std::memcpy(result.mutable_data(), tensor.raw_data().data(), result.bytes());
    return result;
  }
  if (!file.empty()) {
    const int fd = tensor.data_location() == onnx::TensorProto::EXTERNAL
                       ? open_beside(path_.parent_path(), file, where)
                       : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      throw CompileError(where, str("its file ", in_quotes(file), " is absent"),
                         {"values that the compiler computes with must be there"});
    }
    try {
      read_exactly(fd, result.mutable_data(), result.bytes(), range.offset, where);
    } catch (...) {
      ::close(fd);
      throw;
    }
    ::close(fd);
    return result;
  }
  switch (result.dtype()) {
    case DType::F32:
      copy_typed<decltype(tensor.float_data()), float>(tensor.float_data(), result, where);
      break;
    case DType::F64:
      copy_typed<decltype(tensor.double_data()), double>(tensor.double_data(), result, where);
      break;
    case DType::I64:
      copy_typed<decltype(tensor.int64_data()), std::int64_t>(tensor.int64_data(), result, where);
      break;
    case DType::I32:
      copy_typed<decltype(tensor.int32_data()), std::int32_t>(tensor.int32_data(), result, where);
      break;
    case DType::I16:
    case DType::F16:
    case DType::BF16:
      copy_typed<decltype(tensor.int32_data()), std::uint16_t>(tensor.int32_data(), result, where);
      break;
    case DType::I8:
    case DType::U8:
    case DType::Bool:
      copy_typed<decltype(tensor.int32_data()), std::uint8_t>(tensor.int32_data(), result, where);
      break;
  }
  return result;
}

DType dtype_of(int onnx_type, const std::string& where) {
  switch (onnx_type) {
    case onnx::TensorProto::FLOAT:
      return DType::F32;
    case onnx::TensorProto::DOUBLE:
      return DType::F64;
    case onnx::TensorProto::FLOAT16:
      return DType::F16;
    case onnx::TensorProto::BFLOAT16:
      return DType::BF16;
    case onnx::TensorProto::INT64:
      return DType::I64;
    case onnx::TensorProto::INT32:
      return DType::I32;
    case onnx::TensorProto::INT16:
      return DType::I16;
    case onnx::TensorProto::INT8:
      return DType::I8;
    case onnx::TensorProto::UINT8:
      return DType::U8;
    case onnx::TensorProto::BOOL:
      return DType::Bool;
    default:
      throw CompileError(where, str("element type ", onnx_type, " of ONNX is not supported"));
  }
}

Shape shape_of(const onnx::TensorProto& tensor, const std::string& where) {
  constexpr int kMaxRank = 16;
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  if (tensor.dims_size() > kMaxRank || !sizes_are_sane(shape)) {
    throw CompileError(
        where, str("dimensions (", join(shape, ","), ") are negative, too large or too many"));
  }
  return shape;
}

}  // namespace tessera
