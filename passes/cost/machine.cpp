#include "passes/cost/machine.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/sha256.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// One object of the file: typed, checked access, and an error for keys that nothing reads.
class Reader {
 public:
  Reader(const Json& object, std::string where, std::string path)
      : object_(object), where_(std::move(where)), path_(std::move(path)) {
    if (!object_.is_object()) fail("", "expected an object");
  }

  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    const std::string at = key.empty() ? path_ : path_.empty() ? key : str(path_, ".", key);
    throw CompileError(where_, str(at.empty() ? "the file" : at, ": ", what),
                       {"passes/cost/README.md describes the format; `tessera machine NAME` prints "
                        "a preset to start from"});
  }

  const Json* find(const std::string& key) {
    seen_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const Json& need(const std::string& key) {
    const Json* found = find(key);
    if (found == nullptr) fail(key, "is missing");
    return *found;
  }

  std::string text(const std::string& key, const std::string& fallback) {
    const Json* found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is_string()) fail(key, "expected a text");
    return found->get<std::string>();
  }

  double number(const std::string& key, double low, double high) {
    return checked(key, need(key), low, high);
  }
  double number(const std::string& key, double low, double high, double fallback) {
    const Json* found = find(key);
    return found == nullptr ? fallback : checked(key, *found, low, high);
  }
  int count(const std::string& key, int low, int high) {
    const double value = number(key, low, high);
    if (value != std::floor(value)) fail(key, "expected a whole number");
    return static_cast<int>(value);
  }

  bool flag(const std::string& key, bool fallback) {
    const Json* found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is_boolean()) fail(key, "expected true or false");
    return found->get<bool>();
  }

  const Json& list(const std::string& key) {
    static const Json none = Json::array();
    const Json* found = find(key);
    if (found == nullptr) return none;
    if (!found->is_array()) fail(key, "expected a list");
    return *found;
  }

  Reader inner(const std::string& key, const Json& object) const {
    return {object, where_, path_.empty() ? key : str(path_, ".", key)};
  }

  double checked(const std::string& key, const Json& value, double low, double high) const {
    if (!value.is_number()) fail(key, "expected a number");
    const double number = value.get<double>();
    if (!(number >= low && number <= high))
      fail(key, str("is ", number, ", must be between ", low, " and ", high));
    return number;
  }

  // Call last: a key that was not read is a typing error that would change every prediction.
  void done() const {
    for (const auto& [key, value] : object_.items()) {
      if (!seen_.contains(key)) fail(key, "is no key of this object");
    }
  }

 private:
  const Json& object_;
  std::string where_, path_;
  std::set<std::string> seen_;
};

constexpr double kMost = 1e21;

Device read_device(Reader r) {
  Device device;
  device.name = r.text("name", "");
  Reader peaks = r.inner("peak_flops", r.need("peak_flops"));
  for (const auto& [key, value] : r.need("peak_flops").items()) {
    const auto dtype = dtype_named(key);
    if (!dtype || !is_float(*dtype)) peaks.fail(key, "is no float dtype (f64, f32, bf16, f16)");
    device.peak_flops[*dtype] = peaks.checked(key, value, 1, kMost);
  }
  if (device.peak_flops.empty()) r.fail("peak_flops", "names no dtype");
  for (const Json& point : r.list("gemm_efficiency")) {
    if (!point.is_array() || point.size() != 2)
      r.fail("gemm_efficiency", "expected pairs [smallest size, share of peak]");
    device.gemm.points.emplace_back(r.checked("gemm_efficiency", point[0], 1, 1e9),
                                    r.checked("gemm_efficiency", point[1], 1e-6, 1));
  }
  if (!std::ranges::is_sorted(device.gemm.points)) r.fail("gemm_efficiency", "sizes must ascend");
  device.launch_seconds = r.number("launch_seconds", 0, 1, 0);
  device.memory_bytes = r.number("memory_bytes", 1, kMost);
  device.memory_bandwidth = r.number("memory_bandwidth", 1, kMost);
  device.runtime_bytes = r.number("runtime_bytes", 0, kMost, 0);
  device.communicator_bytes = r.number("communicator_bytes", 0, kMost, 0);
  r.done();
  return device;
}

Link read_link(Reader r) {
  Link link;
  link.name = r.text("name", "");
  link.devices = r.find("devices") == nullptr ? 0 : r.count("devices", 1, 1 << 24);
  link.bandwidth = r.number("bandwidth", 1, kMost);
  link.latency = r.number("latency", 0, 1, 0);
  link.beside_compute = r.flag("beside_compute", true);
  r.done();
  return link;
}

Measured read_measured(Reader r) {
  Measured table;
  table.inside = r.count("inside", 1, 1 << 24);
  Reader sizes = r.inner("bandwidth", r.need("bandwidth"));
  for (const auto& [key, value] : r.need("bandwidth").items()) {
    char* end = nullptr;
    const long size = std::strtol(key.c_str(), &end, 10);
    if (*end != '\0' || size < 2 || size > (1 << 24)) sizes.fail(key, "expected a group size");
    table.bandwidth[static_cast<int>(size)] = sizes.checked(key, value, 1, kMost);
  }
  if (table.bandwidth.empty()) r.fail("bandwidth", "names no group size");
  r.done();
  return table;
}

void check_links(const Reader& r, const Machine& machine) {
  int reach = 1;
  for (const Link& link : machine.links) {
    if (reach == 0) r.fail("links", "nothing lies outside of a link class that joins all devices");
    if (link.devices != 0 && (link.devices <= reach || link.devices % reach != 0))
      r.fail("links", str("class ", in_quotes(link.name), " joins ", link.devices,
                          " devices, which must be a multiple of ", reach, " and more"));
    reach = link.devices;
  }
  if (machine.links.empty() || (reach != 0 && reach < machine.devices()))
    r.fail("links", "the outermost class must join all devices (leave out its `devices`)");
}

}  // namespace

double Efficiency::at(double smallest) const {
  if (points.empty()) return 1;
  if (smallest <= points.front().first) return points.front().second;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto [size, share] = points[i];
    if (smallest > size) continue;
    const auto [before, share_before] = points[i - 1];
    const double part = std::log2(smallest / before) / std::log2(size / before);
    return share_before + part * (share - share_before);
  }
  return points.back().second;
}

bool Machine::beside_compute() const {
  return std::ranges::any_of(links, [](const Link& link) { return link.beside_compute; });
}

double Machine::peak(DType dtype) const {
  for (const DType candidate : {dtype, DType::BF16, DType::F16, DType::F32, DType::F64}) {
    const auto found = device.peak_flops.find(candidate);
    if (found != device.peak_flops.end() && byte_size(candidate) >= byte_size(dtype))
      return found->second;
  }
  return device.peak_flops.begin()->second;
}

Machine parse_machine(const std::string& json, const std::string& where) {
  Json file;
  try {
    file = Json::parse(json);
  } catch (const Json::exception& error) {
    throw CompileError(where, str("is not JSON: ", error.what()));
  }
  Reader r(file, where, "");
  Machine machine;
  machine.fingerprint = sha256(file.dump());
  machine.name = r.text("name", where);
  machine.source = r.text("source", "");
  machine.nodes = r.count("nodes", 1, 1 << 20);
  machine.devices_per_node = r.count("devices_per_node", 1, 1024);
  machine.device = read_device(r.inner("device", r.need("device")));
  const Json& links = r.list("links");
  for (std::size_t i = 0; i < links.size(); ++i)
    machine.links.push_back(read_link(r.inner(str("links[", i, "]"), links[i])));
  const Json& measured = r.list("measured");
  for (std::size_t i = 0; i < measured.size(); ++i)
    machine.measured.push_back(read_measured(r.inner(str("measured[", i, "]"), measured[i])));
  if (!std::ranges::is_sorted(machine.measured, {}, &Measured::inside))
    r.fail("measured", "`inside` must ascend");
  check_links(r, machine);
  r.done();
  return machine;
}

Machine load_machine(const std::string& name_or_path) {
  for (const Preset& preset : machine_presets()) {
    if (preset.name == name_or_path)
      return parse_machine(std::string(preset.json), str("machine ", preset.name));
  }
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error)) {
    throw CompileError("--machine", str("there is no machine file ", in_quotes(name_or_path)),
                       {str("presets: ", join(machine_presets(), ", ",
                                              [](const Preset& preset) { return preset.name; }))});
  }
  return parse_machine(read_text(name_or_path), name_or_path);
}

}  // namespace tessera
