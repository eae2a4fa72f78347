#include "ir/base/attr.h"

#include <charconv>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

template <class T>
const T& typed(const AttrList& attrs, std::string_view name) {
  const Attr* attr = attrs.find(name);
  TESSERA_CHECK(attr != nullptr, "missing attribute ", name);
  const T* value = std::get_if<T>(attr);
  TESSERA_CHECK(value != nullptr, "attribute ", name, " has another type");
  return *value;
}

}  // namespace

const Attr* AttrList::find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void AttrList::set(std::string_view name, Attr value) {
  for (auto& [key, old] : items_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  items_.emplace_back(name, std::move(value));
}

void AttrList::erase(std::string_view name) {
  std::erase_if(items_, [&](const auto& item) { return item.first == name; });
}

std::int64_t AttrList::integer(std::string_view name) const {
  return typed<std::int64_t>(*this, name);
}
double AttrList::number(std::string_view name) const { return typed<double>(*this, name); }
bool AttrList::flag(std::string_view name) const { return has(name) && typed<bool>(*this, name); }
const std::string& AttrList::text(std::string_view name) const {
  return typed<std::string>(*this, name);
}
const Ints& AttrList::ints(std::string_view name) const { return typed<Ints>(*this, name); }
const Axes& AttrList::axes(std::string_view name) const {
  return typed<AxesAttr>(*this, name).axes;
}
DType AttrList::dtype(std::string_view name) const { return typed<DType>(*this, name); }

std::string number_text(double value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, result.ptr);
  if (text == "-nan") text = "nan";  // a sign that carries no value must not make two texts of one
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string to_text(const Attr& attr, const Grid& grid) {
  switch (kind(attr)) {
    case AttrKind::Int:
      return str(std::get<std::int64_t>(attr));
    case AttrKind::Float:
      return number_text(std::get<double>(attr));
    case AttrKind::Bool:
      return std::get<bool>(attr) ? "true" : "false";
    case AttrKind::Text:
      return in_quotes(std::get<std::string>(attr));
    case AttrKind::IntList:
      return str("(", join(std::get<Ints>(attr), ","), ")");
    case AttrKind::AxisList:
      return grid.text(std::get<AxesAttr>(attr).axes);
    case AttrKind::Dtype:
      return std::string(name(std::get<DType>(attr)));
  }
  return {};
}

}  // namespace tessera
