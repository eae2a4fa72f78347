#include "passes/search/search.h"

#include <algorithm>
#include <future>

namespace tessera {
namespace {

// A choice must promise this much less to be preferred to a simpler one: more than round-off.
constexpr double kWorthIt = 1 - 1e-9;
// Grids that take this much longer than the best are not listed.
constexpr double kNotNear = 1.1;

std::vector<bool> values_of(Setting setting, const std::optional<bool>& fixed, bool matters) {
  if (fixed) return {*fixed};
  if (!matters) return {false};
  switch (setting) {
    case Setting::Off:
      return {false};
    case Setting::On:
      return {true};
    case Setting::Free:
      return {false, true};
  }
  return {};
}

bool matches(const GridPattern& p, int data, int z, int y, int x) {
  return (p.data == 0 || p.data == data) && (p.z == 0 || p.z == z) && (p.y == 0 || p.y == y) &&
         (p.x == 0 || p.x == x);
}

bool agrees(Setting setting, bool value, bool matters) {
  return setting == Setting::Free || !matters || (setting == Setting::On) == value;
}

int size_of(const Grid& grid, const char* axis) { return grid.size(grid.find(axis)); }

// Gathered versions exist where parameters are cut over z or activations over spare axes.
bool gathers(const Choice& c) {
  return size_of(c.grid, "z") > 1 || c.scatter_tokens || c.scatter_features;
}

bool belongs(const Choice& c, const Strategy& s) {
  const int data = size_of(c.grid, "data"), z = size_of(c.grid, "z"), y = size_of(c.grid, "y"),
            x = size_of(c.grid, "x");
  return matches(s.pattern, data, z, y, x) && s.forms(data, z, y, x) &&
         agrees(s.regather, c.regather, gathers(c)) && agrees(s.zero1, c.zero1, data > 1) &&
         agrees(s.tokens, c.scatter_tokens, y > 1) && agrees(s.features, c.scatter_features, x > 1);
}

void keep_better(std::optional<Candidate>& best, const Candidate& candidate) {
  const bool better = !best || (candidate.fits && !best->fits) ||
                      (candidate.fits ? candidate.seconds < kWorthIt * best->seconds
                                      : !best->fits && candidate.memory < best->memory);
  if (better) best = candidate;
}

class Searcher {
 public:
  // Looks at every `of`-th grid, from number `part` on.
  Searcher(const StepModel& model, const SearchSpace& space, int part, int of)
      : model_(model.view()), space_(space), part_(part), of_(of) {
    result_.by_strategy.resize(strategies().size());
  }

  SearchResult run() {
    const int n = space_.devices;
    int number = 0;
    for (int data = 1; data <= n; ++data) {
      for (int z = 1; n % data == 0 && z <= n / data; ++z) {
        const int left = n / data / z;
        for (int y = 1; n / data % z == 0 && y <= left; ++y) {
          if (left % y != 0 || !allowed(data, z, y, left / y)) continue;
          if (number++ % of_ == part_) try_grid(data, z, y, left / y);
        }
      }
    }
    for (Candidate& candidate : result_.candidates) split_time(candidate);
    for (std::optional<Candidate>& candidate : result_.by_strategy) {
      if (candidate) split_time(*candidate);
    }
    return std::move(result_);
  }

 private:
  void split_time(Candidate& candidate) const {
    const Estimate estimate = model_.estimate(candidate.choice);
    candidate.seconds = estimate.seconds;
    candidate.compute = estimate.compute;
    candidate.communication = estimate.communication;
  }

  bool allowed(int data, int z, int y, int x) const {
    return matches(space_.pattern, data, z, y, x) &&
           matches(space_.strategy.pattern, data, z, y, x) && space_.strategy.forms(data, z, y, x);
  }

  std::vector<Recompute> recomputes() const {
    if (space_.recompute) return {*space_.recompute};
    if (!model_.trains()) return {Recompute::None};
    return {Recompute::None, Recompute::Selective, Recompute::Block};
  }

  // The fastest choice on this grid that fits; else the smallest one.
  void try_grid(int data, int z, int y, int x) {
    const Strategy& s = space_.strategy;
    best_.reset();
    Choice choice;
    choice.grid = Grid({{"data", data}, {"z", z}, {"y", y}, {"x", x}});
    for (const bool tokens : values_of(s.tokens, space_.tokens, y > 1)) {
      for (const bool features : values_of(s.features, space_.features, x > 1)) {
        choice.scatter_tokens = tokens;
        choice.scatter_features = features;
        try_layout(choice);
      }
    }
    ++result_.grids;
    if (best_) result_.candidates.push_back(*best_);
  }

  // Micro-batches from few to many, until every setting fits.
  void try_layout(Choice choice) {
    const Grid& grid = choice.grid;
    struct Settings {
      Recompute recompute;
      bool regather, zero1, done = false;
    };
    std::vector<Settings> all;
    for (const Recompute recompute : recomputes()) {
      for (const bool regather : values_of(space_.strategy.regather, space_.regather,
                                           gathers(choice) && model_.trains())) {
        for (const bool zero1 : values_of(space_.strategy.zero1, space_.zero1,
                                          size_of(grid, "data") > 1 && model_.trains()))
          all.push_back({recompute, regather, zero1});
      }
    }
    const auto rows = static_cast<std::int64_t>(size_of(grid, "data")) * size_of(grid, "z");
    const std::int64_t first = space_.micro_batches.value_or(1);
    const std::int64_t most = space_.micro_batches || !model_.trains()
                                  ? first
                                  : std::max<std::int64_t>(model_.batch() / rows, 1);
    for (std::int64_t count = first; count <= most; count *= 2) {
      choice.micro_batches = count;
      for (Settings& settings : all) {
        if (settings.done) continue;
        choice.recompute = settings.recompute;
        choice.regather = settings.regather;
        choice.zero1 = settings.zero1;
        settings.done = offer(choice);
      }
      if (std::ranges::all_of(all, &Settings::done)) break;
    }
  }

  // Whether more micro-batches need not be tried: it fits, or can never be of use.
  bool offer(const Choice& choice) {
    Candidate candidate;
    candidate.choice = choice;
    candidate.seconds = model_.seconds(choice);
    ++result_.priced;
    if (hopeless(candidate)) return true;
    // If nothing fits, the least need of all is what the refusal tells.
    const bool some_fit = result_.by_strategy[0] && result_.by_strategy[0]->fits;
    if (some_fit && model_.state_memory(choice) > space_.memory_bytes) return true;
    candidate.memory = model_.memory(choice);
    candidate.fits = candidate.memory <= space_.memory_bytes;
    keep_better(best_, candidate);
    for (std::size_t i = 0; i < strategies().size(); ++i) {
      if (belongs(choice, strategies()[i])) keep_better(result_.by_strategy[i], candidate);
    }
    return candidate.fits;
  }

  // With more micro-batches a step only takes longer. Choices far from the best are of use if they
  // may be the best of a strategy.
  bool hopeless(const Candidate& candidate) const {
    const std::optional<Candidate>& best = result_.by_strategy[0];
    if (!best || !best->fits || candidate.seconds < kNotNear * best->seconds) return false;
    for (std::size_t i = 0; i < strategies().size(); ++i) {
      if (!belongs(candidate.choice, strategies()[i])) continue;
      const std::optional<Candidate>& known = result_.by_strategy[i];
      if (!known || !known->fits || candidate.seconds < known->seconds) return false;
    }
    return true;
  }

  const StepModel model_;
  const SearchSpace& space_;
  int part_, of_;
  std::optional<Candidate> best_;  // on the grid at hand
  SearchResult result_;
};

}  // namespace

// Grids are dealt out to two threads; each prunes by what it has seen itself, so that the result
// does not depend on their pace.
SearchResult search(const StepModel& model, const SearchSpace& space) {
  constexpr int kThreads = 2;
  std::vector<std::future<SearchResult>> parts;
  for (int part = 0; part < kThreads; ++part) {
    parts.push_back(std::async(std::launch::async, [&model, &space, part] {
      return Searcher(model, space, part, kThreads).run();
    }));
  }
  SearchResult result = parts[0].get();
  for (int part = 1; part < kThreads; ++part) {
    const SearchResult other = parts[static_cast<std::size_t>(part)].get();
    result.grids += other.grids;
    result.priced += other.priced;
    result.candidates.insert(result.candidates.end(), other.candidates.begin(),
                             other.candidates.end());
    for (std::size_t i = 0; i < strategies().size(); ++i) {
      if (other.by_strategy[i]) keep_better(result.by_strategy[i], *other.by_strategy[i]);
    }
  }
  std::ranges::stable_sort(result.candidates, [](const Candidate& a, const Candidate& b) {
    if (a.fits != b.fits) return a.fits;
    return a.fits ? a.seconds < b.seconds : a.memory < b.memory;
  });
  result.lower_bound = model.lower_bound(space.devices);
  return result;
}

}  // namespace tessera
