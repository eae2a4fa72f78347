// `tessera explain`: what a plan is expected to take on a machine, and where the time and memory
// go.
#pragma once
#include <filesystem>
#include <string>

namespace tessera {

struct ExplainFlags {
  std::filesystem::path plan, trace, html, diff;
  std::string machine;  // empty: the one the plan was chosen for
  std::string why;      // a value's name
  bool json = false;
};

void explain(const ExplainFlags& flags);

}  // namespace tessera
