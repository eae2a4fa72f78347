// Symbolic dimensions: names, or expressions over names as exporters write them
// ("past_sequence_length + 1").
#pragma once
#include <map>
#include <set>
#include <string>

#include "ir/base/shape.h"

namespace tessera {

class DimBindings {
 public:
  explicit DimBindings(std::map<std::string, std::int64_t> bindings)
      : bindings_(std::move(bindings)) {}

  // The size of a dimension called `name`: bound exactly, or an expression (+ - * // ( )) over
  // bound names. Throws CompileError that names dimension, input and flag when something is
  // unbound.
  std::int64_t resolve(const std::string& name, const std::string& where);
  bool has(const std::string& name) const { return bindings_.contains(name); }
  // Throws when a binding was never used: a misspelt name must not pass silently.
  void check_all_used(const std::string& file) const;
  std::string text() const;  // batch=8, sequence=16

 private:
  std::map<std::string, std::int64_t> bindings_;
  std::set<std::string> used_;
  std::set<std::string> known_;
};

}  // namespace tessera
