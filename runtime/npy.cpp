#include "runtime/npy.h"

#include <charconv>
#include <fstream>
#include <map>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

struct Code {
  DType dtype;
  const char* descr;
};
constexpr Code kCodes[] = {{DType::F32, "<f4"}, {DType::F64, "<f8"}, {DType::F16, "<f2"},
                           {DType::I64, "<i8"}, {DType::I32, "<i4"}, {DType::I16, "<i2"},
                           {DType::I8, "|i1"},  {DType::U8, "|u1"},  {DType::Bool, "|b1"}};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw CompileError(path.string(), str("is not a readable .npy file: ", why));
}

// The text after 'key': in the header's dictionary.
std::string_view field(const std::filesystem::path& path, std::string_view header,
                       const std::string& key) {
  const std::size_t at = header.find("'" + key + "'");
  const std::size_t colon = at == std::string_view::npos ? at : header.find(':', at);
  if (colon == std::string_view::npos) refuse(path, str("the header lacks ", key));
  std::string_view rest = header.substr(colon + 1);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return rest;
}

Shape parse_shape(const std::filesystem::path& path, std::string_view text) {
  Shape shape;
  const std::size_t close = text.find(')');
  if (text.empty() || text.front() != '(' || close == std::string_view::npos)
    refuse(path, "bad shape");
  text = text.substr(1, close - 1);
  while (!text.empty()) {
    while (!text.empty() && (text.front() == ' ' || text.front() == ',')) text.remove_prefix(1);
    if (text.empty()) break;
    std::int64_t size = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), size);
    if (result.ec != std::errc() || shape.size() == 16) refuse(path, "bad shape");
    text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
    shape.push_back(size);
  }
  if (!sizes_are_sane(shape)) refuse(path, "bad shape");
  return shape;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  const std::uint64_t file_size = std::filesystem::file_size(path, error);
  if (!in || error) throw CompileError(path.string(), "cannot read the file");
  unsigned char start[12] = {};
  in.read(reinterpret_cast<char*>(start), 10);
  if (!in || std::string_view(reinterpret_cast<char*>(start), 6) != "\x93NUMPY" || start[6] < 1 ||
      start[6] > 3)
    refuse(path, "no NUMPY mark");
  std::uint64_t header_size = start[8] | static_cast<std::uint64_t>(start[9]) << 8;
  std::uint64_t data_at = 10;
  if (start[6] >= 2) {
    in.read(reinterpret_cast<char*>(start) + 10, 2);
    header_size |=
        static_cast<std::uint64_t>(start[10]) << 16 | static_cast<std::uint64_t>(start[11]) << 24;
    data_at = 12;
  }
  if (header_size > file_size - data_at || header_size > (1u << 20))
    refuse(path, "bad header length");
  std::string header(header_size, ' ');
  in.read(header.data(), static_cast<std::streamsize>(header_size));
  if (field(path, header, "fortran_order").starts_with("True"))
    refuse(path, "Fortran order is not supported");
  const std::string_view descr = field(path, header, "descr");
  for (const Code& code : kCodes) {
    if (descr.substr(1, 3) != code.descr &&
        descr.substr(1, 3) != std::string("=") + (code.descr + 1))
      continue;
    Tensor tensor;
    const Shape shape = parse_shape(path, field(path, header, "shape"));
    const auto need = static_cast<std::uint64_t>(elements(shape)) * byte_size(code.dtype);
    if (need > file_size - data_at - header_size)
      refuse(path, str("it ends early: ", need, " bytes of data are needed"));
    tensor = Tensor(code.dtype, shape);
    in.read(reinterpret_cast<char*>(tensor.mutable_data()),
            static_cast<std::streamsize>(tensor.bytes()));
    if (!in) refuse(path, "it ends early");
    return tensor;
  }
  refuse(path, str("dtype ", descr.substr(0, 8), " is not supported"));
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  std::string descr;
  for (const Code& code : kCodes) {
    if (code.dtype == tensor.dtype()) descr = code.descr;
  }
  if (descr.empty())
    throw CompileError(path.string(), str(".npy has no dtype for ", name(tensor.dtype())));
  std::string header =
      str("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", join(tensor.shape(), ", "),
          tensor.shape().size() == 1 ? ",), }" : "), }");
  header.append(64 - (header.size() + 11) % 64, ' ');
  header += '\n';
  write_atomically(path, [&](std::ostream& out) {
    const auto size = static_cast<std::uint16_t>(header.size());
    out << "\x93NUMPY" << '\x01' << '\x00' << static_cast<char>(size & 255)
        << static_cast<char>(size >> 8) << header;
    out.write(reinterpret_cast<const char*>(tensor.data()),
              static_cast<std::streamsize>(tensor.bytes()));
  });
}

}  // namespace tessera
