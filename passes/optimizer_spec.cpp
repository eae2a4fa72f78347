// The text form of optimizers on the command line.
#include <charconv>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "passes/pass.h"

namespace tessera {
namespace {

constexpr std::string_view kFlag = "--optimizer";

double* field(OptimizerSpec& spec, std::string_view key) {
  if (key == "lr") return &spec.lr;
  if (key == "beta1") return &spec.beta1;
  if (key == "beta2") return &spec.beta2;
  if (key == "eps") return &spec.eps;
  if (key == "weight_decay") return &spec.weight_decay;
  if (key == "momentum") return &spec.momentum;
  return nullptr;
}

void check_ranges(const OptimizerSpec& spec) {
  const auto refuse = [](const std::string& what) { throw CompileError(std::string(kFlag), what); };
  if (!(spec.lr >= 0)) refuse(str("lr is ", spec.lr, ", must be >= 0"));
  if (!(spec.beta1 >= 0 && spec.beta1 < 1))
    refuse(str("beta1 is ", spec.beta1, ", must be in [0,1)"));
  if (!(spec.beta2 >= 0 && spec.beta2 < 1))
    refuse(str("beta2 is ", spec.beta2, ", must be in [0,1)"));
  if (!(spec.eps >= 0)) refuse(str("eps is ", spec.eps, ", must be >= 0"));
  if (!(spec.momentum >= 0 && spec.momentum < 1))
    refuse(str("momentum is ", spec.momentum, ", must be in [0,1)"));
  if (!(spec.weight_decay >= 0))
    refuse(str("weight_decay is ", spec.weight_decay, ", must be >= 0"));
}

}  // namespace

OptimizerSpec parse_optimizer(std::string_view text) {
  OptimizerSpec spec;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  bool has_momentum = false;
  std::string_view rest =
      colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t equals = item.find('=');
    double* target =
        equals == std::string_view::npos ? nullptr : field(spec, item.substr(0, equals));
    if (target == nullptr) {
      throw CompileError(
          std::string(kFlag), str("unknown setting '", item, "'"),
          {"known: lr, beta1, beta2, eps, weight_decay, momentum, each as key=value"});
    }
    has_momentum = has_momentum || target == &spec.momentum;
    const std::string_view digits = item.substr(equals + 1);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), *target);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
      throw CompileError(std::string(kFlag), str("'", digits, "' is not a number"));
    }
  }
  if (kind == "sgd") {
    spec.kind = has_momentum ? OptimizerKind::SgdMomentum : OptimizerKind::Sgd;
  } else if (kind == "adam" || kind == "adamw") {
    spec.kind = kind == "adam" ? OptimizerKind::Adam : OptimizerKind::AdamW;
  } else {
    throw CompileError(std::string(kFlag), str("unknown optimizer '", kind, "'"),
                       {"known: sgd, adam, adamw"});
  }
  check_ranges(spec);
  return spec;
}

}  // namespace tessera
