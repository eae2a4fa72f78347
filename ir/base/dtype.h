// Element types and their one table.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

enum class DType : std::uint8_t { F32, F64, F16, BF16, I64, I32, I16, I8, U8, Bool };

struct DTypeRow {
  DType dtype;
  std::string_view name;         // in the IR and in plans
  std::size_t bytes;             // of one element
  std::string_view safetensors;  // its name in a safetensors header
};

inline constexpr std::array<DTypeRow, 10> kDTypes{{
    {DType::F32, "f32", 4, "F32"},
    {DType::F64, "f64", 8, "F64"},
    {DType::F16, "f16", 2, "F16"},
    {DType::BF16, "bf16", 2, "BF16"},
    {DType::I64, "i64", 8, "I64"},
    {DType::I32, "i32", 4, "I32"},
    {DType::I16, "i16", 2, "I16"},
    {DType::I8, "i8", 1, "I8"},
    {DType::U8, "u8", 1, "U8"},
    {DType::Bool, "bool", 1, "BOOL"},
}};

constexpr const DTypeRow& row(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view name(DType dtype) { return row(dtype).name; }
constexpr std::size_t byte_size(DType dtype) { return row(dtype).bytes; }
constexpr bool is_float(DType dtype) { return dtype <= DType::BF16; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::I64 && dtype <= DType::U8; }

constexpr std::optional<DType> dtype_named(std::string_view text) {
  for (const DTypeRow& entry : kDTypes) {
    if (entry.name == text) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace tessera
