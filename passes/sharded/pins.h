// --pin 'REGEX=DIMS': the user says how parameters or values lie. DIMS lists the dimensions, each
// with an optional size and the axes that cut it: "12288{z}, 49152{y}", "{}, {y}", ", {x,z}". A pin
// is obeyed, or refused with the reason; never dropped.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera {

struct Pin {
  std::string text;                 // as given, for messages
  std::string regex;                // of whole names, without '%'
  std::vector<std::int64_t> sizes;  // -1: not said
  std::vector<std::vector<std::string>> axes;
};

// Throws CompileError.
Pin parse_pin(const std::string& text);

// Cuts parameters and loops of ops as the pins say, where the body's ops have their loops; axes of
// size 1 are left out. The layers that read a pinned parameter follow it, but for the axes that
// only store it (z, data). Throws CompileError if a pin names nothing, does not fit its value, or
// asks for a cut that an op cannot take.
void apply_pins(const std::vector<std::string>& pins, Module& module, Func& body);

// The ops whose loops that has set.
std::set<const Op*> pinned_ops(const std::vector<std::string>& pins, const Func& body);

}  // namespace tessera
