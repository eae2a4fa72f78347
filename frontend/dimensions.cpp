#include "frontend/dimensions.h"

#include <cctype>
#include <functional>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {
namespace {

// Recursive descent over: sum = product (('+'|'-') product)*, product = atom (('*'|'//') atom)*.
class Expression {
 public:
  using Lookup = std::function<std::int64_t(const std::string&)>;
  Expression(const std::string& text, Lookup lookup) : text_(text), lookup_(std::move(lookup)) {}

  bool parse(std::int64_t& value) {
    value = sum();
    skip();
    return ok_ && at_ == text_.size();
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(const char* token) {
    skip();
    const std::string_view wanted(token);
    if (text_.compare(at_, wanted.size(), wanted) != 0) return false;
    at_ += wanted.size();
    return true;
  }
  std::int64_t combined(std::int64_t a, std::int64_t b, char op) {
    std::int64_t result = 0;
    const bool overflow = op == '+'   ? __builtin_add_overflow(a, b, &result)
                          : op == '-' ? __builtin_sub_overflow(a, b, &result)
                                      : __builtin_mul_overflow(a, b, &result);
    ok_ = ok_ && !overflow;
    return result;
  }
  std::int64_t sum() {
    std::int64_t value = product();
    for (;;) {
      if (accept("+")) {
        value = combined(value, product(), '+');
      } else if (accept("-")) {
        value = combined(value, product(), '-');
      } else {
        return value;
      }
    }
  }
  std::int64_t product() {
    std::int64_t value = atom();
    for (;;) {
      if (accept("//")) {
        const std::int64_t divisor = atom();
        ok_ = ok_ && divisor > 0;
        if (ok_) value /= divisor;
      } else if (accept("*")) {
        value = combined(value, atom(), '*');
      } else {
        return value;
      }
    }
  }
  std::int64_t atom() {
    skip();
    if (++depth_ > 64) ok_ = false;
    if (!ok_) return 0;
    if (accept("(")) {
      const std::int64_t value = sum();
      ok_ = ok_ && accept(")");
      --depth_;
      return value;
    }
    std::string word;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '.'))
      word += text_[at_++];
    --depth_;
    if (word.empty()) {
      ok_ = false;
      return 0;
    }
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      std::int64_t value = 0;
      for (char c : word) {
        ok_ = ok_ && std::isdigit(static_cast<unsigned char>(c)) && value < 1'000'000'000'000;
        value = value * 10 + (c - '0');
      }
      return value;
    }
    return lookup_(word);
  }

  const std::string& text_;
  Lookup lookup_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool ok_ = true;
};

}  // namespace

std::int64_t DimBindings::resolve(const std::string& name, const std::string& where) {
  const auto found = bindings_.find(name);
  if (found != bindings_.end()) {
    used_.insert(name);
    return found->second;
  }
  std::string missing;
  std::int64_t value = 0;
  Expression expression(name, [&](const std::string& word) -> std::int64_t {
    known_.insert(word);
    const auto bound = bindings_.find(word);
    if (bound == bindings_.end()) {
      if (missing.empty()) missing = word;
      return 1;
    }
    used_.insert(word);
    return bound->second;
  });
  const bool parsed = expression.parse(value);
  if (!parsed || !missing.empty()) {
    known_.insert(name);
    const std::string unbound = parsed ? missing : name;
    throw CompileError(where, str("dimension '", name, "' is not bound"),
                       {str("bind it with --bind ", unbound, "=SIZE")});
  }
  if (value < 0) throw CompileError(where, str("dimension '", name, "' would be ", value));
  return value;
}

void DimBindings::check_all_used(const std::string& file) const {
  for (const auto& [name, value] : bindings_) {
    if (used_.contains(name)) continue;
    throw CompileError(
        "--bind", str("no input of ", file, " has a dimension or name '", name, "'"),
        {known_.empty() && used_.empty()
             ? "the model has no symbolic dimensions"
             : str("symbolic dimensions: ", join(used_, ", "),
                   used_.empty() || known_.empty() ? "" : ", ", join(known_, ", "))});
  }
}

std::string DimBindings::text() const {
  return join(bindings_, ", ", [](const auto& item) { return str(item.first, "=", item.second); });
}

}  // namespace tessera
