// A dense row-major tensor in host memory. Copies share the buffer; `mutable_data` is for whoever
// just made it.
#pragma once
#include <cstring>
#include <memory>
#include <span>

#include "ir/base/dtype.h"
#include "ir/base/shape.h"

namespace tessera {

class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape)  // zeroed
      : dtype_(dtype),
        shape_(std::move(shape)),
        bytes_(static_cast<std::size_t>(elements(shape_)) * byte_size(dtype)) {
    data_ = std::shared_ptr<std::byte[]>(new std::byte[bytes_ == 0 ? 1 : bytes_]());
  }

  template <class T>
  static Tensor of(DType dtype, Shape shape, std::span<const T> values) {
    Tensor tensor(dtype, std::move(shape));
    TESSERA_CHECK(values.size_bytes() == tensor.bytes(), "value count does not match shape");
    if (!values.empty()) std::memcpy(tensor.data_.get(), values.data(), values.size_bytes());
    return tensor;
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::size_t bytes() const { return bytes_; }
  std::int64_t size() const { return elements(shape_); }
  const std::byte* data() const { return data_.get(); }
  std::byte* mutable_data() { return data_.get(); }

  // Typed views; the caller names the C++ type of dtype (float, double, int64_t, int32_t, bool
  // ...).
  template <class T>
  std::span<const T> view() const {
    TESSERA_CHECK(sizeof(T) == byte_size(dtype_), "typed view of another size");
    return {reinterpret_cast<const T*>(data_.get()), static_cast<std::size_t>(size())};
  }
  template <class T>
  std::span<T> mutable_view() {
    TESSERA_CHECK(sizeof(T) == byte_size(dtype_), "typed view of another size");
    return {reinterpret_cast<T*>(data_.get()), static_cast<std::size_t>(size())};
  }

  // The same bytes under another shape of equally many elements.
  Tensor reshaped(Shape shape) const {
    TESSERA_CHECK(elements(shape) == size(), "reshape changes the count of elements");
    Tensor result = *this;
    result.shape_ = std::move(shape);
    return result;
  }

  // Element i as a double (bool as 0 or 1); integers beyond 2^53 lose bits, use view<int64_t> for
  // those.
  double number(std::int64_t i) const;
  // Whether dtype, shape and bytes are equal.
  bool same_as(const Tensor& other) const {
    return dtype_ == other.dtype_ && shape_ == other.shape_ &&
           std::memcmp(data(), other.data(), bytes_) == 0;
  }

 private:
  DType dtype_ = DType::F32;
  Shape shape_;
  std::size_t bytes_ = 0;
  std::shared_ptr<std::byte[]> data_;
};

// Conversions between f32 and the two 16-bit formats (round to nearest even).
float half_to_float(std::uint16_t bits);
float bfloat_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
std::uint16_t float_to_bfloat(float value);

}  // namespace tessera
