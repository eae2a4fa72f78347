#include "passes/sharded/pins.h"

#include <algorithm>
#include <charconv>
#include <regex>

#include "ir/base/diag.h"
#include "ir/base/text.h"
#include "ir/op_def.h"

namespace tessera {
namespace {

constexpr const char* kFlag = "--pin";

[[noreturn]] void refuse(const std::string& pin, const std::string& why) {
  throw CompileError(kFlag, str(in_quotes(pin), ": ", why),
                     {"write --pin 'REGEX=DIMS', as in --pin '.*c_fc.weight={z}, {y}'"});
}

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

// Commas inside braces belong to a dimension's axes.
std::vector<std::string> split_dims(const std::string& text) {
  std::vector<std::string> dims(1);
  bool inside = false;
  for (const char c : text) {
    inside = c == '{' || (inside && c != '}');
    if (c == ',' && !inside) {
      dims.emplace_back();
    } else {
      dims.back() += c;
    }
  }
  return dims;
}

class Applier {
 public:
  Applier(const Pin& pin, Module& module, Func& body) : pin_(pin), module_(module), body_(body) {}

  void run() {
    const std::regex regex(pin_.regex);
    int found = 0;
    for (const auto& func : module_.funcs()) {
      for (Arg& arg : func->args()) {
        if (arg.kind != ArgKind::Param || !std::regex_match(arg.value->name, regex)) continue;
        pin_parameter(*func, *arg.value);
        ++found;
      }
    }
    for (const auto& op : body_.ops()) {
      for (std::size_t i = 0; i < op->results.size(); ++i) {
        if (!std::regex_match(op->result(i)->name, regex)) continue;
        pin_result(*op, i);
        ++found;
      }
    }
    if (found == 0)
      refuse(pin_.text, "no parameter and no value of the model's body has such a name");
  }

 private:
  std::vector<Axes> cuts_for(const Value& value) const {
    const Type& type = value.type;
    if (pin_.axes.size() != type.rank())
      refuse(pin_.text,
             str("%", value.name, " has ", type.rank(), " dimensions (",
                 to_text(type.logical(), module_.grid), "), the pin ", pin_.axes.size()));
    std::vector<Axes> cuts(type.rank());
    Axes used;
    for (std::size_t d = 0; d < type.rank(); ++d) {
      if (pin_.sizes[d] >= 0 && pin_.sizes[d] != type.shape[d])
        refuse(pin_.text, str("dimension ", d, " of %", value.name, " has size ", type.shape[d],
                              ", the pin ", pin_.sizes[d]));
      for (const std::string& name : pin_.axes[d]) add_axis(name, cuts[d], used);
    }
    return cuts;
  }

  // An axis that was refined for heads counts as its parts.
  void add_axis(const std::string& name, Axes& cut, Axes& used) const {
    const Grid& grid = module_.grid;
    bool known = false;
    for (AxisId axis = 0; axis < grid.axis_count(); ++axis) {
      if (grid.name(axis) != name && !grid.name(axis).starts_with(name + ".")) continue;
      known = true;
      if (grid.size(axis) == 1) continue;
      if (contains(used, axis)) refuse(pin_.text, str("axis ", name, " cuts two dimensions"));
      cut.push_back(axis);
      used.push_back(axis);
    }
    if (!known) refuse(pin_.text, str("the grid ", grid.text(), " has no axis ", name));
  }

  void pin_parameter(const Func& func, Value& param) {
    param.type.cuts = cuts_for(param);
    for (const auto& state_func : module_.funcs()) {
      for (Arg& arg : state_func->args()) {  // its gradient and optimizer state lie as it does
        const bool own = arg.kind == ArgKind::State &&
                         arg.value->name.starts_with(param.name + ".") &&
                         arg.value->type.shape == param.type.shape;
        if (own) arg.value->type.cuts = param.type.cuts;
      }
    }
    if (&func != &body_) return;
    std::vector<Axes> used = param.type.cuts;
    for (Axes& axes : used) {
      std::erase_if(axes, [&](AxisId axis) {
        const std::string& name = module_.grid.name(axis);
        return name == "z" || name == "data";
      });
    }
    for (Op* user : param.users) {
      if (user->kind != OpKind::Einsum || !user->loops) continue;
      const IndexMap map = index_map(*user);
      const auto at = static_cast<std::size_t>(std::ranges::find(user->operands, &param) -
                                               user->operands.begin());
      set_loops(*user, map, map.operands[at], used);
    }
  }

  void pin_result(Op& op, std::size_t result) {
    const IndexMap map = index_map(op);
    set_loops(op, map, map.results[result], cuts_for(*op.result(result)));
  }

  // The loops of `term` take these axes; other loops that hold one of them lose it.
  void set_loops(Op& op, const IndexMap& map, const std::string& term,
                 const std::vector<Axes>& cuts) const {
    LoopAxes loops = op.loops.value_or(LoopAxes{});
    Axes taken;
    for (const Axes& axes : cuts) taken = concatenated(std::move(taken), axes);
    for (auto& [loop, axes] : loops) axes = without(axes, taken);
    for (std::size_t d = 0; d < term.size(); ++d) {
      if (map.is_whole(term[d]) && !cuts[d].empty())
        refuse(pin_.text,
               str(mnemonic(op.kind), op.origin.empty() ? "" : str(" (node '", op.origin, "')"),
                   " needs dimension ", d, " of %", op.result()->name, " whole"));
      loops[term[d]] = cuts[d];
    }
    std::erase_if(loops, [](const auto& item) { return item.second.empty(); });
    op.loops = std::move(loops);
  }

  const Pin& pin_;
  Module& module_;
  Func& body_;
};

}  // namespace

Pin parse_pin(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) refuse(text, "expected REGEX=DIMS");
  Pin pin{text, text.substr(0, equals), {}, {}};
  try {
    const std::regex check(pin.regex);
  } catch (const std::regex_error& error) {
    refuse(text, str("bad regular expression: ", error.what()));
  }
  for (const std::string& item : split_dims(text.substr(equals + 1))) {
    const std::string dim = trimmed(item);
    const std::size_t open = dim.find('{');
    const std::string size = trimmed(dim.substr(0, open));
    std::int64_t number = -1;
    const auto result = std::from_chars(size.data(), size.data() + size.size(), number);
    if (!size.empty() && (result.ec != std::errc() || result.ptr != size.data() + size.size()))
      refuse(text, str(in_quotes(dim), " is not a dimension"));
    pin.sizes.push_back(number);
    pin.axes.emplace_back();
    if (open == std::string::npos) continue;
    if (dim.back() != '}' || dim.find('{', open + 1) != std::string::npos)
      refuse(text, str(in_quotes(dim), " has no closing brace"));
    const std::string list = dim.substr(open + 1, dim.size() - open - 2);
    for (const std::string& axis : split(list, ',')) {
      if (!trimmed(axis).empty()) pin.axes.back().push_back(trimmed(axis));
    }
  }
  return pin;
}

void apply_pins(const std::vector<std::string>& pins, Module& module, Func& body) {
  for (const std::string& text : pins) {
    const Pin pin = parse_pin(text);
    Applier(pin, module, body).run();
  }
}

std::set<const Op*> pinned_ops(const std::vector<std::string>& pins, const Func& body) {
  std::set<const Op*> found;
  for (const std::string& text : pins) {
    const std::regex names(parse_pin(text).regex);
    for (const auto& op : body.ops()) {
      const auto named = [&](const auto& value) { return std::regex_match(value->name, names); };
      const auto reads = [&](const Value* operand) {
        return operand->def == nullptr && op->kind == OpKind::Einsum && named(operand);
      };
      if (std::ranges::any_of(op->results, named) || std::ranges::any_of(op->operands, reads))
        found.insert(op.get());
    }
  }
  return found;
}

}  // namespace tessera
