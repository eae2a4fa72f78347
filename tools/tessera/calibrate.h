// `tessera calibrate`: measures this machine as local ranks see it, all of them at once, and writes
// a machine file.
#pragma once
#include <filesystem>

namespace tessera {

struct CalibrateFlags {
  int ranks = 8;
  double seconds = 0.2;  // a measurement
  std::filesystem::path output;
};

void calibrate(const CalibrateFlags& flags);

}  // namespace tessera
