#include "runtime/session.h"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ir/base/diag.h"
#include "ir/base/file.h"
#include "ir/base/safetensors.h"
#include "ir/base/text.h"
#include "runtime/checkpoint.h"
#include "runtime/executor.h"
#include "runtime/npy.h"
#include "runtime/parameter_files.h"
#include "runtime/progress.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Learning rates by step: a constant, or a file with one rate a line (the last one stays).
class Schedule {
 public:
  Schedule(const Plan& plan, const std::string& text) {
    const std::string source =
        !text.empty() ? text : (plan.notes.contains("lr") ? plan.notes.at("lr") : "0.001");
    double rate = 0;
    const auto result = std::from_chars(source.data(), source.data() + source.size(), rate);
    if (result.ec == std::errc() && result.ptr == source.data() + source.size()) {
      rates_ = {rate};
      return;
    }
    std::ifstream in(source);
    for (double value = 0; in >> value;) rates_.push_back(value);
    if (rates_.empty() || !in.eof())
      throw CompileError("--lr",
                         str(in_quotes(source), " is neither a number nor a file of numbers"));
  }
  double at(std::int64_t step) const {
    return rates_[std::min(static_cast<std::size_t>(step), rates_.size() - 1)];
  }

 private:
  std::vector<double> rates_;
};

Tensor scalar(DType dtype, double value) {
  Tensor tensor(dtype, {});
  if (dtype == DType::F32) tensor.mutable_view<float>()[0] = static_cast<float>(value);
  if (dtype == DType::F64) tensor.mutable_view<double>()[0] = value;
  if (dtype == DType::I64)
    tensor.mutable_view<std::int64_t>()[0] = static_cast<std::int64_t>(value);
  return tensor;
}

// Loss and norm of a step are read after the next one was started, so that no step waits for the
// host.
class Report {
 public:
  Report(const SessionOptions& options, std::int64_t tokens_per_step, bool is_root)
      : progress_(options.steps, tokens_per_step, is_root && !options.quiet) {
    if (!is_root || options.log.empty()) return;
    log_.open(options.log, options.resume.empty() ? std::ios::trunc : std::ios::app);
    if (!log_) throw CompileError(options.log.string(), "cannot write the log");
  }

  struct Step {
    std::int64_t step;
    Clock::time_point start;
    std::shared_ptr<HostScalars> scalars;
  };
  void add(Step step) { pending_ = std::move(step); }

  void flush(const RankAbort& abort) {
    if (!pending_) return;
    HostScalars& scalars = *pending_->scalars;
    scalars.ready.wait(1, abort);
    const double loss = scalars.values[0], norm = scalars.values[1];
    // A step is put into the queues while the one before it runs.
    const Clock::time_point start = std::max(pending_->start, last_end_);
    const double seconds = std::chrono::duration<double>(scalars.taken - start).count();
    last_end_ = scalars.taken;
    if (log_.is_open()) {
      const nlohmann::ordered_json line{
          {"step", pending_->step}, {"loss", loss}, {"grad_norm", norm}, {"seconds", seconds}};
      log_ << line.dump() << "\n" << std::flush;
    }
    progress_.step(pending_->step, loss, norm, seconds);
    pending_.reset();
  }
  void finish() { progress_.finish(); }

 private:
  std::ofstream log_;
  Progress progress_;
  std::optional<Step> pending_;
  Clock::time_point last_end_;  // of the step before it
};

class Session {
 public:
  Session(const Plan& plan, const SessionOptions& options, World& world)
      : plan_(plan),
        options_(options),
        world_(world),
        batches_(plan, options.batches),
        executor_(plan, world, options.execution),
        trace_(world.rank()) {
    if (options.random_weights) {
      executor_.randomize_weights(*options.random_weights);
    } else {
      executor_.load_weights(options.plan_folder, options.verify_weights);
    }
    world_.barrier("load weights");
    origin_ = Clock::now();
    if (!options.trace.empty()) executor_.record_into(trace_);
  }

  void run() {
    if (executor_.has("forward")) {
      infer();
    } else {
      train();
    }
    executor_.synchronize();
    if (!options_.save_weights.empty()) save(options_.save_weights, "");
    if (!options_.trace.empty()) write_trace_file();
  }

 private:
  bool is_root() const { return world_.rank() == 0; }

  void infer() {
    for (const auto& [name, tensor] : batches_.micro_batch(0, 0))
      executor_.set_input("forward", name, tensor);
    for (const auto& [name, path] : options_.outputs) check_output(name);
    executor_.run("forward");
    for (const PlanResult& result : plan_.find("forward")->results) {
      const Tensor value = executor_.collect_output("forward", result.name);
      if (!is_root()) continue;
      const auto path = options_.outputs.find(result.name);
      if (path != options_.outputs.end()) write_npy(path->second, value);
      if (!options_.quiet)
        std::cout << describe(result.name, value)
                  << (path != options_.outputs.end() ? str(" -> ", path->second.string()) : "")
                  << "\n";
    }
  }

  void check_output(const std::string& name) const {
    const auto& results = plan_.find("forward")->results;
    for (const PlanResult& result : results) {
      if (result.name == name) return;
    }
    throw CompileError(
        "--output", str("the plan has no output ", in_quotes(name)),
        {str("outputs: ", join(results, ", ", [](const PlanResult& r) { return r.name; }))});
  }

  static std::string describe(const std::string& name, const Tensor& value) {
    double sum = 0;
    for (std::int64_t i = 0; i < value.size(); ++i) sum += value.number(i);
    return str(name, " ", to_text(Type(value.dtype(), value.shape()), Grid()), " mean ",
               value.size() > 0 ? sum / static_cast<double>(value.size()) : 0.0);
  }

  void train() {
    TrainingState state{0, options_.batches.seed};
    if (!options_.resume.empty()) {
      state = load_checkpoint(executor_, options_.resume);
      if (state.seed != options_.batches.seed)
        throw CompileError("--seed", str("the checkpoint was made with --seed ", state.seed));
      world_.barrier("resume");
    }
    if (!options_.resume.empty() && state.step >= options_.steps)
      throw CompileError("--steps", str("the checkpoint has ", state.step, " steps already"),
                         {"--steps counts from the start of the training"});
    const Schedule schedule(plan_, options_.lr);
    Report report(options_, batches_.tokens_per_step(), is_root());
    const std::int64_t first = state.step;
    for (; state.step < options_.steps; ++state.step) {
      const auto start = Clock::now();
      run_step(state.step, schedule.at(state.step),
               state.step == first && !options_.dump_gradients.empty());
      report.flush(executor_.rank_abort());  // the step before this one
      report.add({state.step, start, executor_.stage_scalars("update", {"loss", "grad_norm"})});
      const bool last = state.step + 1 == options_.steps;
      const bool due =
          options_.checkpoint_every > 0 && (state.step + 1) % options_.checkpoint_every == 0;
      if (last || due) report.flush(executor_.rank_abort());
      if (!options_.checkpoint.empty() && (due || last))
        save_checkpoint(executor_, options_.checkpoint, {state.step + 1, state.seed});
    }
    report.finish();
  }

  void run_step(std::int64_t step, double lr, bool dump) {
    if (const Tensor labels = batches_.stacked_labels(step); !batches_.labels().empty())
      executor_.set_input("prepare", batches_.labels(), labels);
    executor_.run("prepare");
    for (std::int64_t micro = 0; micro < plan_.micro_batches; ++micro) {
      for (const auto& [name, tensor] : batches_.micro_batch(step, micro))
        executor_.set_input("micro", name, tensor);
      executor_.run("micro");
    }
    if (dump) save(options_.dump_gradients, ".grad");
    executor_.set_input("update", "lr", scalar(input_dtype("lr"), lr));
    executor_.set_input("update", "step", scalar(DType::I64, static_cast<double>(step + 1)));
    executor_.run("update");
  }

  DType input_dtype(const std::string& name) const {
    const PlanFunc& update = *plan_.find("update");
    for (const PlanArg& arg : update.args) {
      const PlanValue& value = update.values[static_cast<std::size_t>(arg.value)];
      if (value.name == name) return value.type.dtype;
    }
    return DType::F32;
  }

  void save(const std::filesystem::path& path, const std::string& suffix) {
    const auto tensors = collect_in_file_layout(executor_, suffix);
    if (is_root()) write_safetensors(path, tensors);
  }

  // Events travel as text to rank 0: sizes first.
  void write_trace_file() {
    const std::string own = trace_.json(origin_);
    const auto count = static_cast<std::size_t>(world_.size());
    std::vector<std::uint64_t> sizes(count, 0);
    const std::uint64_t size = own.size();
    std::vector<ConstBytes> send(count, {reinterpret_cast<const std::byte*>(&size), sizeof size});
    std::vector<Bytes> receive;
    receive.reserve(count);
    for (std::uint64_t& other : sizes)
      receive.push_back({reinterpret_cast<std::byte*>(&other), sizeof other});
    world_.everyone().exchange(send, receive, "trace sizes");
    std::vector<std::string> texts(count);
    send.assign(count, {});
    receive.assign(count, {});
    send[0] = {reinterpret_cast<const std::byte*>(own.data()), own.size()};
    for (std::size_t r = 0; r < count && is_root(); ++r) {
      texts[r].resize(sizes[r]);
      receive[r] = {reinterpret_cast<std::byte*>(texts[r].data()), sizes[r]};
    }
    world_.everyone().exchange(send, receive, "trace");
    if (is_root()) write_trace(options_.trace, texts);
  }

  const Plan& plan_;
  const SessionOptions& options_;
  World& world_;
  Batches batches_;
  Executor executor_;
  Trace trace_;
  Clock::time_point origin_;
};

}  // namespace

void run_session(const Plan& plan, const SessionOptions& options, World& world) {
  Session(plan, options, world).run();
}

}  // namespace tessera
