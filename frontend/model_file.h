// Reading a model without its weights: the file is mapped, large raw_data fields are skipped and
// remembered as byte ranges, the rest is parsed. Memory does not grow with the weights, and files
// above 2 GiB work.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "ir/base/tensor.h"

namespace onnx {
class GraphProto;
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace tessera {

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

class ModelFile {
 public:
  // Throws CompileError when the file cannot be read or is no model.
  explicit ModelFile(const std::filesystem::path& path);
  ~ModelFile();

  onnx::ModelProto& proto() { return *proto_; }
  const onnx::GraphProto& model_graph() const;
  const std::filesystem::path& path() const { return path_; }

  // Where a tensor's bytes lie: (file relative to the model's folder, range), checked against the
  // file's size and the tensor's type. The file is empty when the bytes are in typed fields of the
  // proto.
  std::pair<std::string, ByteRange> location(const onnx::TensorProto& tensor) const;
  // Whether the tensor's bytes are there: external files may be absent, and the model can still be
  // planned. Asking for their location then gives what the model says of it, unchecked.
  bool has_data(const onnx::TensorProto& tensor) const;
  // The tensor's values, wherever they are.
  Tensor read(const onnx::TensorProto& tensor) const;

 private:
  std::pair<std::string, ByteRange> external_location(const onnx::TensorProto& tensor) const;
  std::filesystem::path path_;
  std::unique_ptr<onnx::ModelProto> proto_;
  std::map<std::string, ByteRange> raw_;         // by initializer name
  mutable std::map<std::string, bool> present_;  // external files
};

// Dtype and sizes of a tensor. Throws CompileError for types and sizes that cannot be handled.
DType dtype_of(int onnx_type, const std::string& where);
Shape shape_of(const onnx::TensorProto& tensor, const std::string& where);

}  // namespace tessera
