#!/usr/bin/env bash
# Formats all C++ sources.
set -euo pipefail
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14 || command -v clang-format)
find ir frontend passes codegen runtime tools test \( -name '*.cpp' -o -name '*.h' \) -print0 | xargs -0 "$format" -i
