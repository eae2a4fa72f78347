// Where a step's inputs come from: fixed files, or windows of a token stream. Data are sampled by
// seed, step and the global sample index, never by rank, so every grid sees the same batches.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/base/tensor.h"
#include "runtime/plan.h"

namespace tessera {

struct BatchOptions {
  std::map<std::string, std::filesystem::path> inputs;  // --input NAME=FILE.npy
  std::filesystem::path data;                           // --data TOKENS.npy|TOKENS.bin
  std::string data_dtype = "u16";                       // of .bin files: u16, i32, i64
  std::string tokens;  // --tokens NAME; default: the only integer input but labels
  std::uint64_t seed = 0;
};

class Batches {
 public:
  // Throws CompileError for inputs that are missing, unknown or of another type.
  Batches(const Plan& plan, const BatchOptions& options);

  // Whole inputs of micro-batch `micro` of `step` (from 0), by input name. Ids and labels are
  // checked to be in range; the error names step, input and value.
  std::map<std::string, Tensor> micro_batch(std::int64_t step, std::int64_t micro) const;
  // Labels of all micro-batches, stacked; empty without labels.
  Tensor stacked_labels(std::int64_t step) const;
  const std::string& labels() const { return labels_; }
  std::int64_t tokens_per_step() const { return tokens_per_step_; }

 private:
  Tensor sampled(const std::string& name, const Type& type, std::int64_t step, std::int64_t micro,
                 bool label) const;
  Tensor fixed_part(const std::string& name, const Type& type, std::int64_t micro) const;
  void check_range(const std::string& name, const Tensor& tensor, std::int64_t step) const;
  std::int64_t token(std::int64_t at) const;

  const Plan& plan_;
  BatchOptions options_;
  std::string labels_, tokens_;
  std::map<std::string, Type> types_;    // inputs of the body function, sub-batches joined
  std::map<std::string, Shape> shapes_;  // as the plan has them
  std::map<std::string, Tensor> fixed_;
  Tensor stream_;
  std::int64_t batch_ = 0;  // samples of the whole step
  std::int64_t tokens_per_step_ = 0;
};

}  // namespace tessera
