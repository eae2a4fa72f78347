#include "tools/tessera/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/text.h"
#include "passes/cost/machine.h"
#include "runtime/collectives.h"
#include "runtime/cpu/gemm.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// What one rank does again and again; called with the rank's world.
using Body = std::function<void(World&)>;

// Seconds that one call of the body takes while all ranks call it, at the slowest rank.
class Ranks {
 public:
  Ranks(int count, double seconds) : count_(count), seconds_(seconds) {}

  double time(const std::function<Body(int rank)>& make) const {
    AbortFlag abort;
    const auto hub = make_local_hub(count_, Timeout(60), abort);
    std::vector<double> each(static_cast<std::size_t>(count_), 0);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count_; ++rank) {
      threads.emplace_back([&, rank] {
        const auto world = make_local_world(hub, rank);
        const Body body = make(rank);
        body(*world);  // warms up
        int calls = calls_within(*world, body);
        world->barrier("start");
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) body(*world);
        each[static_cast<std::size_t>(rank)] =
            std::chrono::duration<double>(Clock::now() - start).count() / calls;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return *std::ranges::max_element(each);
  }

 private:
  // Equally many on all ranks: rank 0 measures one call and tells the others.
  int calls_within(World& world, const Body& body) const {
    const auto start = Clock::now();
    body(world);
    const double one = std::chrono::duration<double>(Clock::now() - start).count();
    int calls = std::clamp(static_cast<int>(seconds_ / std::max(one, 1e-7)), 1, 100000);
    std::vector<int> told(static_cast<std::size_t>(count_), 0);
    std::vector<ConstBytes> send(told.size(),
                                 {reinterpret_cast<const std::byte*>(&calls), sizeof calls});
    std::vector<Bytes> receive;
    receive.reserve(told.size());
    for (int& other : told) receive.push_back({reinterpret_cast<std::byte*>(&other), sizeof other});
    world.everyone().exchange(send, receive, "calls");
    return told[0];
  }

  int count_;
  double seconds_;
};

// FLOP/s of one rank in products whose smallest size is `size`.
double gemm_rate(const Ranks& ranks, std::int64_t size) {
  const std::int64_t large = std::max<std::int64_t>(size, 256);
  const double seconds = ranks.time([&](int) -> Body {
    auto a = std::make_shared<std::vector<float>>(static_cast<std::size_t>(large * size), 0.5f);
    auto b = std::make_shared<std::vector<float>>(static_cast<std::size_t>(size * large), 0.5f);
    auto c = std::make_shared<std::vector<float>>(static_cast<std::size_t>(large * large));
    return [=](World&) {
      cpu::gemm({large, large, size, false, false, size, large, large}, 1.0f, a->data(), b->data(),
                0.0f, c->data());
    };
  });
  return 2.0 * static_cast<double>(large * large * size) / seconds;
}

// Bytes a second that one rank reads and writes.
double memory_rate(const Ranks& ranks) {
  constexpr std::size_t kBytes = 16 << 20;
  const double seconds = ranks.time([&](int) -> Body {
    auto from = std::make_shared<std::vector<std::byte>>(kBytes);
    auto to = std::make_shared<std::vector<std::byte>>(kBytes);
    return [=](World&) { std::memcpy(to->data(), from->data(), kBytes); };
  });
  return 2.0 * kBytes / seconds;
}

// Seconds of an all-reduce of `bytes` in groups of `size` neighbours, all groups at once.
double all_reduce_seconds(const Ranks& ranks, int count, int size, std::int64_t bytes) {
  const Grid grid({{"data", count / size}, {"x", size}});
  const Type partial(DType::F32, {bytes / 4}, {{}}, {ReduceOp::Sum, {1}});
  const Type reduced(DType::F32, {bytes / 4});
  const AttrList attrs{{"over", AxesAttr{{1}}}};
  return ranks.time([&](int rank) -> Body {
    auto operand = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
    auto result = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
    auto group = std::make_shared<std::unique_ptr<Group>>();
    return [=, &grid, &partial, &reduced, &attrs](World& world) {
      if (!*group) *group = world.group(grid.group(rank, {1}), 1);
      run_collective({OpKind::AllReduce, &attrs, &partial, &reduced, &grid, rank, operand->data(),
                      result->data(), "all_reduce"},
                     **group);
    };
  });
}

Json measure(const CalibrateFlags& flags) {
  const Ranks ranks(flags.ranks, flags.seconds);
  std::vector<std::pair<int, double>> rates;
  for (const int size : {8, 16, 32, 64, 128, 256, 512}) {
    rates.emplace_back(size, gemm_rate(ranks, size));
    std::cout << "gemm, smallest size " << size << ": " << rates.back().second / 1e9
              << " GFLOP/s a rank\n";
  }
  const double peak =
      std::ranges::max_element(rates, {}, [](const auto& rate) { return rate.second; })->second;
  Json efficiency = Json::array();
  for (const auto& [size, rate] : rates) efficiency.push_back({size, rate / peak});
  const double memory = memory_rate(ranks);
  std::cout << "memory: " << memory / 1e9 << " GB/s a rank\n";
  constexpr std::int64_t kLarge = 4 << 20, kSmall = 256;
  Json table = Json::object();
  double latency = 1e-6, bandwidth = memory;
  for (int size = 2; size <= flags.ranks; size *= 2) {
    if (flags.ranks % size != 0) continue;
    const double small = all_reduce_seconds(ranks, flags.ranks, size, kSmall);
    const double large = all_reduce_seconds(ranks, flags.ranks, size, kLarge);
    bandwidth =
        2.0 * (size - 1) / size * static_cast<double>(kLarge) / std::max(large - small, 1e-9);
    latency = small / (2 * (size - 1));
    table[str(size)] = bandwidth;
    std::cout << "all_reduce of " << size << ": " << bandwidth / 1e9 << " GB/s, " << small * 1e6
              << " us for " << kSmall << " bytes\n";
  }
  const double total =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  Json machine{{"name", "calibrated"},
               {"source", str("tessera calibrate, ", flags.ranks, " local ranks")},
               {"nodes", 1},
               {"devices_per_node", flags.ranks}};
  machine["device"] = {{"name", "local rank"},
                       {"peak_flops", {{"f32", peak}, {"f64", peak / 2}}},
                       {"gemm_efficiency", efficiency},
                       {"launch_seconds", 2e-6},
                       {"memory_bytes", total / flags.ranks},
                       {"memory_bandwidth", memory},
                       {"runtime_bytes", 3e7}};
  machine["links"] = Json::array({{{"name", "shared memory"},
                                   {"bandwidth", bandwidth},
                                   {"latency", latency},
                                   {"beside_compute", false}}});
  if (!table.empty()) machine["measured"] = Json::array({{{"inside", 1}, {"bandwidth", table}}});
  return machine;
}

}  // namespace

void calibrate(const CalibrateFlags& flags) {
  const std::string json = measure(flags).dump(2) + "\n";
  parse_machine(json, flags.output.string());  // what is written can be read
  write_text(flags.output, json);
  std::cout << flags.output.string() << ": use it with --machine " << flags.output.string() << "\n";
}

}  // namespace tessera
