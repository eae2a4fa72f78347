// Where a parameter's values come from: a byte range of a file and the view from the file's tensor
// to the parameter. Views are invertible as lists, so dumps, exports and checkpoints write the
// file's own layout.
#pragma once
#include <string>
#include <vector>

#include "ir/base/attr.h"
#include "ir/base/dtype.h"
#include "ir/base/shape.h"

namespace tessera {

enum class ViewKind : std::uint8_t {
  Slice,    // (dim, start, stop)
  Reshape,  // the new sizes
  Permute,  // result dimension i is operand dimension perm[i]
};

struct ViewStep {
  ViewKind kind = ViewKind::Reshape;
  Ints args;
  bool operator==(const ViewStep&) const = default;
};

struct WeightSource {
  std::string file;    // relative to the model's folder (in the IR) or to the plan's folder
  std::string tensor;  // the ONNX name: what dumps and logs call it
  DType dtype = DType::F32;
  Shape shape;  // in the file
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string sha256;          // of the byte range; empty until codegen fills it
  std::vector<ViewStep> view;  // applied in order, gives the parameter's shape
  bool trainable = true;
  std::vector<std::string> aliases;  // other ONNX names of the same parameter
  bool operator==(const WeightSource&) const = default;
};

// Shape after `view` is applied to a tensor of `shape`. Throws InternalError when a step does not
// fit.
Shape viewed_shape(Shape shape, const std::vector<ViewStep>& view);

}  // namespace tessera
