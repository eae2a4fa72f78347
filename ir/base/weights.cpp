#include "ir/base/weights.h"

namespace tessera {

Shape viewed_shape(Shape shape, const std::vector<ViewStep>& view) {
  for (const ViewStep& step : view) {
    switch (step.kind) {
      case ViewKind::Slice: {
        TESSERA_CHECK(step.args.size() == 3, "a slice has (dim, start, stop)");
        const auto dim = static_cast<std::size_t>(step.args[0]);
        TESSERA_CHECK(dim < shape.size() && 0 <= step.args[1] && step.args[1] <= step.args[2] &&
                          step.args[2] <= shape[dim],
                      "slice outside of the tensor");
        shape[dim] = step.args[2] - step.args[1];
        break;
      }
      case ViewKind::Reshape:
        TESSERA_CHECK(elements(step.args) == elements(shape),
                      "reshape changes the count of elements");
        shape = step.args;
        break;
      case ViewKind::Permute: {
        TESSERA_CHECK(step.args.size() == shape.size(), "permute of another rank");
        Shape permuted;
        for (std::int64_t dim : step.args)
          permuted.push_back(shape.at(static_cast<std::size_t>(dim)));
        shape = permuted;
        break;
      }
    }
  }
  return shape;
}

}  // namespace tessera
