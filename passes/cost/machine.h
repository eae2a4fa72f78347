// What the cost model knows of a cluster: a machine file (JSON, see passes/cost/README.md), or one
// of the presets that ship in passes/cost/machines. Units are bytes, seconds and their quotients.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/base/dtype.h"

namespace tessera {

// Efficiency of a matrix product by its smallest size (m, n or k): points, linear in log2(size)
// between them, constant beyond the ends.
struct Efficiency {
  std::vector<std::pair<double, double>> points;
  double at(double smallest) const;
};

struct Device {
  std::string name;
  std::map<DType, double> peak_flops;  // by dtype of the operands
  Efficiency gemm;                     // of peak_flops
  double launch_seconds = 0;           // per kernel
  double memory_bytes = 0;
  double memory_bandwidth = 0;
  // What the communication library takes from memory: once, and for each communicator.
  double runtime_bytes = 0, communicator_bytes = 0;
};

// Links of one class, innermost first. `devices`: how many devices it joins (0: all of them).
// `bandwidth` is what one group of the next inner class (a device, a node) sends through it at
// once, all rings together.
struct Link {
  std::string name;
  int devices = 0;
  double bandwidth = 0;
  double latency = 0;
  bool beside_compute = true;  // transfers leave the device free to compute
};

// Measured all-reduce bus bandwidth of all rings at once, by the product of the grid sizes inside a
// group and by its size, as arXiv 2305.13525 tabulates it; the largest `inside` and `size` not
// above the asked ones count.
struct Measured {
  int inside = 1;
  std::map<int, double> bandwidth;  // by group size
};

struct Machine {
  std::string name, source;
  std::string fingerprint;  // of the file's content: figures of one are not another's
  int nodes = 1, devices_per_node = 1;
  Device device;
  std::vector<Link> links;
  std::vector<Measured> measured;

  int devices() const { return nodes * devices_per_node; }
  bool beside_compute() const;     // whether any link is
  double peak(DType dtype) const;  // of the dtype; of the next wider one if it is not listed
};

// Throws CompileError naming the file, the key and what is expected there.
Machine parse_machine(const std::string& json, const std::string& where);
// The name of a preset or a path.
Machine load_machine(const std::string& name_or_path);

struct Preset {
  std::string_view name, json;
};
const std::vector<Preset>& machine_presets();

}  // namespace tessera
