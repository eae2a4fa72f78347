// Quantities as people read them: 8.64 s, 35.5 GB, 115 PFLOP/s.
#pragma once
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

namespace tessera {

inline std::string with_unit(double value,
                             std::initializer_list<std::pair<double, const char*>> units) {
  for (const auto& [size, unit] : units) {
    if (std::abs(value) < size && size > units.end()[-1].first) continue;
    char text[48];
    std::snprintf(text, sizeof text, "%.3g %s", value / size, unit);
    return text;
  }
  return "";
}

inline std::string seconds_text(double s) {
  return with_unit(s, {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}});
}
inline std::string bytes_text(double b) {
  return with_unit(b, {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}});
}
inline std::string flops_text(double f) {
  return with_unit(f, {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}});
}

}  // namespace tessera
