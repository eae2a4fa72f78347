// Text -> Module: the inverse of ir/print.h. Throws CompileError with file:line:column.
#pragma once
#include <functional>

#include "ir/base/lexer.h"
#include "ir/graph.h"

namespace tessera {

// Loads a constant kept in a side file: (file name as printed, key) -> tensor. Throws CompileError.
using ConstantLoader = std::function<Tensor(const std::string& file, const std::string& key)>;

// Checks names, counts and attributes; types are checked by the verifier.
Module parse_module(const std::string& text, const std::string& file,
                    const ConstantLoader& loader = {});

// i64[3] = (1,2,3)
Tensor parse_constant(Lexer& lexer);

}  // namespace tessera
