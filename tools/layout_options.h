// Flags that say how a plan is laid out, and what trades time for memory: for every tool that runs
// passes.
#pragma once
#include <map>
#include <string>

#include "passes/pass.h"
#include "tools/guarded.h"

namespace tessera {

inline void add_layout_options(CLI::App& app, PassOptions& options) {
  static const std::map<std::string, Recompute> kModes{
      {"none", Recompute::None}, {"selective", Recompute::Selective}, {"block", Recompute::Block}};
  app.add_option_function<std::string>(
         "--recompute",
         [&options](const std::string& mode) { options.recompute = kModes.at(mode); },
         "What the backward pass makes again instead of keeping it: none; selective (all but "
         "contractions); block (all but the residual stream between blocks)")
      ->check(CLI::IsMember({"none", "selective", "block"}));
  app.add_flag(
      "--regather,!--no-regather", options.regather,
      "Gather for the backward pass again what the forward pass gathered (parameters over z)");
  app.add_flag("--scatter-tokens,!--no-scatter-tokens", options.scatter_tokens,
               "Cut the tokens of the residual stream over y instead of copying them");
  app.add_flag("--scatter-features,!--no-scatter-features", options.scatter_features,
               "Cut heads and MLP features over x instead of copying them");
  app.add_flag_function(
      "--refine,!--no-refine",
      [&options](std::int64_t on) { options.refine = on > 0 ? Refine::On : Refine::Off; },
      "Assign loops op by op where that is cheaper on --machine than the layout's (a search for "
      "--strategy auto tries it by itself)");
  app.add_option("--pin", options.pins,
                 "How parameters or values lie: 'REGEX=DIMS', as in '.*c_fc.weight={z}, {y}'");
  app.add_option_function<std::string>(
      "--overlap", [&options](const std::string& text) { options.overlap = parse_overlap(text); },
      "Collectives that run while the device computes: all, none, or a list of oar, ors, oag, "
      "other "
      "(default: all, where --machine gains by it)");
  app.add_option("--sub-batches", options.sub_batches,
                 "Parts of a micro-batch, one of which computes while the other's activations are "
                 "reduced")
      ->check(CLI::Range(1, 64));
  app.add_flag("--zero1,!--no-zero1", options.zero1, "Cut optimizer state over data too");
}

}  // namespace tessera
