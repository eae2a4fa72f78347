// Machine files, and the cost model against the published one (arXiv 2305.13525).
#include <gtest/gtest.h>

#include <array>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "passes/cost/collective_cost.h"

namespace tessera {
namespace {

TEST(Machines, PresetsAreValid) {
  EXPECT_EQ(machine_presets().size(), 7u);
  for (const Preset& preset : machine_presets()) {
    const Machine machine = load_machine(std::string(preset.name));
    EXPECT_EQ(machine.name, preset.name);
    EXPECT_GT(machine.peak(DType::BF16), 0) << preset.name;
  }
}

struct Mistake {
  const char *from, *to, *says;
};

TEST(Machines, MistakesAreNamed) {
  std::string good;
  for (const Preset& preset : machine_presets()) {
    if (preset.name == "perlmutter") good = preset.json;
  }
  const Mistake mistakes[] = {
      {"\"nodes\": 1536", "\"nodes\": 0", "nodes: is 0, must be between 1"},
      {"\"nodes\": 1536", "\"nodes\": 1.5", "nodes: expected a whole number"},
      {"\"nodes\": 1536", "\"node\": 1536", "nodes: is missing"},
      {"\"nodes\": 1536", "\"nodes\": 1536, \"cores\": 3", "cores: is no key"},
      {"\"memory_bytes\": 4e+10", "\"memory_bytes\": \"40 GB\"",
       "device.memory_bytes: expected a number"},
      {"\"bf16\": 3.12e+14", "\"i8\": 3.12e+14", "device.peak_flops.i8: is no float dtype"},
      {"[16, 0.03]", "[16, 3]", "device.gemm_efficiency: is 3, must be"},
      {"[16, 0.03]", "[9999, 0.03]", "sizes must ascend"},
      {"\"devices\": 4", "\"devices\": 1", "links: class"},
      {"\"8\": 8e+10", "\"eight\": 8e+10", "measured[0].bandwidth.eight: expected a group size"},
      {"\"inside\": 2", "\"inside\": 8", "`inside` must ascend"},
      {"\"links\"", "\"wires\"", "links: the outermost class"},
      {"{\n  \"name\"", "[\n  \"name\"", "is not JSON"},
  };
  for (const Mistake& mistake : mistakes) {
    std::string bad = good;
    const std::size_t at = bad.find(mistake.from);
    ASSERT_NE(at, std::string::npos) << mistake.from;
    bad.replace(at, std::string(mistake.from).size(), mistake.to);
    try {
      parse_machine(bad, "m.json");
      ADD_FAILURE() << mistake.to << " was accepted";
    } catch (const CompileError& error) {
      EXPECT_NE(std::string(error.what()).find(mistake.says), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("m.json"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(load_machine("no-such-machine"), CompileError);
}

// The published model of one training step: for each of the four matrices [k, n] of a layer, two
// gathers and one reduce-scatter of the weight over z; all-reduces of the output (twice: forward
// and recomputed) and of the input's gradient; the gradients over data once, in f32. bf16 on the
// wire otherwise; GiB counted as GB.
double published_step(int layers, double hidden, double batch, std::array<int, 4> g) {
  const Grid grid({{"data", g[3]}, {"z", g[2]}, {"y", g[1]}, {"x", g[0]}});
  const AxisId data = 0, z = 1, y = 2, x = 3;
  Machine machine = bandwidth_only(load_machine("perlmutter"));
  const double rows = batch * 2048 / g[3] / g[2];
  const std::array<std::array<double, 2>, 4> matrices{
      {{hidden, 3 * hidden}, {hidden, hidden}, {hidden, 4 * hidden}, {4 * hidden, hidden}}};
  const auto seconds = [&](OpKind kind, AxisId axis, double bytes) {
    return collective_cost(machine, grid, kind, {axis}, bytes).seconds / (1.024 * 1.024 * 1.024);
  };
  double step = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto [k, n] = matrices[i];
    const bool normal = i % 2 == 0;  // the k-split over x, the n-split over y, or the reverse
    const AxisId k_axis = normal ? x : y, n_axis = normal ? y : x;
    const double weight = k * n / g[0] / g[1];
    step += 2 * seconds(OpKind::AllGather, z, 2 * weight);
    step += seconds(OpKind::ReduceScatter, z, 2 * weight);
    step += 2 * seconds(OpKind::AllReduce, k_axis, 2 * rows * n / grid.size(n_axis));
    step += seconds(OpKind::AllReduce, n_axis, 2 * rows * k / grid.size(k_axis));
    step += seconds(OpKind::AllReduce, data, 4 * weight / g[2]);
  }
  return layers * step;
}

TEST(CostModel, ReproducesThePublishedValues) {
  struct Row {
    int layers;
    double hidden, batch;
    std::array<int, 4> grid;  // k-split, n-split, z, data
    double seconds;
    double tolerance;
  };
  const Row rows[] = {
      {32, 7168, 1024, {1, 1, 32, 1}, 1.335, 5e-4},   {32, 7168, 1024, {1, 1, 16, 2}, 1.522, 5e-4},
      {32, 7168, 1024, {1, 4, 8, 1}, 5.69, 5e-3},     {38, 9216, 1024, {1, 1, 64, 1}, 2.663, 5e-4},
      {38, 9216, 1024, {1, 1, 32, 2}, 2.846, 5e-4},   {38, 9216, 1024, {1, 4, 16, 1}, 5.96, 5e-3},
      {42, 12288, 1024, {1, 8, 128, 1}, 4.704, 5e-4}, {42, 12288, 1024, {1, 8, 64, 2}, 4.711, 5e-4},
      {42, 12288, 8192, {1, 1, 1024, 1}, 5.310, 5e-4}};
  for (const Row& row : rows) {
    const double found = published_step(row.layers, row.hidden, row.batch, row.grid);
    EXPECT_NEAR(found, row.seconds, row.tolerance)
        << row.hidden << " " << row.grid[0] << "," << row.grid[1] << "," << row.grid[2] << ","
        << row.grid[3];
  }
}

// Its own argmin over all factorizations is the published best.
TEST(CostModel, ChoosesThePublishedGrids) {
  const auto best = [](int layers, double hidden, double batch, int devices) {
    std::array<int, 4> least{};
    double seconds = 1e300;
    for (int x = 1; x <= devices; x *= 2) {
      for (int y = 1; x * y <= devices; y *= 2) {
        for (int z = 1; x * y * z <= devices; z *= 2) {
          const std::array<int, 4> grid{x, y, z, devices / (x * y * z)};
          if (batch < z * grid[3]) continue;
          const double found = published_step(layers, hidden, batch, grid);
          if (found < seconds) least = grid, seconds = found;
        }
      }
    }
    return least;
  };
  EXPECT_EQ(best(32, 7168, 1024, 32), (std::array{1, 1, 32, 1}));
  EXPECT_EQ(best(38, 9216, 1024, 64), (std::array{1, 1, 64, 1}));
  EXPECT_EQ(best(42, 12288, 1024, 1024), (std::array{1, 8, 128, 1}));
  EXPECT_EQ(best(42, 12288, 8192, 1024), (std::array{1, 1, 1024, 1}));
}

TEST(CostModel, LinksSetTheBandwidthWhereNothingWasMeasured) {
  const Machine dgx = load_machine("dgx-h100");
  EXPECT_DOUBLE_EQ(ring_bandwidth(dgx, 1, 8), 370e9);       // inside the node
  EXPECT_DOUBLE_EQ(ring_bandwidth(dgx, 1, 16), 340e9);      // one ring uses all of a node's NICs
  EXPECT_DOUBLE_EQ(ring_bandwidth(dgx, 2, 16), 340e9 / 2);  // two rings share them
  EXPECT_DOUBLE_EQ(ring_bandwidth(dgx, 8, 4), 340e9 / 8);   // a ring for each device
  EXPECT_DOUBLE_EQ(ring_bandwidth(dgx, 64, 4), 340e9 / 8);
}

TEST(CostModel, LatencyPicksTheAlgorithm) {
  const Machine machine = load_machine("dgx-h100");
  const Grid grid({{"data", 512}});
  const auto small = collective_cost(machine, grid, OpKind::AllReduce, {0}, 1e3);
  EXPECT_EQ(small.algorithm, CollectiveAlgorithm::HalvingDoubling);
  EXPECT_LT(small.seconds, 1e-3);
  EXPECT_EQ(collective_cost(machine, grid, OpKind::AllReduce, {}, 1e3).seconds, 0);
}

}  // namespace
}  // namespace tessera
