#!/usr/bin/env bash
# Style as a test: sizes, layering, banned words, formatting. Prints every violation.
set -uo pipefail
cd "$(dirname "$0")/.."
bad=0
report() { echo "$1"; bad=1; }
mapfile -t sources < <(find ir frontend passes codegen runtime tools test -name '*.cpp' -o -name '*.h' -o -name '*.def' | sort)

for file in "${sources[@]}"; do
  lines=$(wc -l <"$file")
  ((lines <= 400)) || report "$file: $lines lines, at most 400"
done
long=$(grep -nE '^.{101,}$' "${sources[@]}" | grep -v '^[a-z_/]*\.def:' | cut -c1-120)  # tables are exempt
[[ -z $long ]] || report "lines over 100 columns:"$'\n'"$long"
todo=$(grep -nE 'TODO|FIXME|XXX' "${sources[@]}")
[[ -z $todo ]] || report "unfinished work belongs in issues:"$'\n'"$todo"
views=$(grep -nE 'std::views|std::ranges::views' "${sources[@]}")
[[ -z $views ]] || report "views break the older clang tools:"$'\n'"$views"

# layer FOLDERS ALLOWED: includes of the project must match ALLOWED
layer() {
  local found
  found=$(grep -nE '#include "' $(find $1 -name '*.cpp' -o -name '*.h') /dev/null | grep -vE "#include \"($2)")
  [[ -z $found ]] || report "wrong layer:"$'\n'"$found"
}
layer "ir/base" 'ir/base/'
layer "ir" 'ir/'
layer "frontend" 'ir/|frontend/|runtime/cpu/evaluate\.h'
layer "passes" 'ir/|passes/|runtime/cpu/evaluate\.h'
layer "passes/cost" 'ir/base/|passes/cost/'
layer "codegen" 'ir/|codegen/|runtime/(plan|check_plan)\.h|passes/cost/'
layer "runtime" 'ir/base/|runtime/'
layer "tools/tessera-run" 'ir/base/|runtime/|tools/tessera-run/|tools/guarded\.h'
only() {  # only PATTERN WHERE: an include that may occur in few places
  local found
  found=$(grep -nE "#include <$1" "${sources[@]}" | grep -vE "^($2)")
  [[ -z $found ]] || report "<$1 is included outside of $2:"$'\n'"$found"
}
only 'onnx/|google/protobuf' 'frontend/[a-z_]*\.cpp'
only 'mpi\.h' 'runtime/comm_mpi\.cpp'

format=$(command -v clang-format-14 || command -v clang-format)
if [[ -n $format ]]; then
  unformatted=$("$format" --dry-run $(printf '%s\n' "${sources[@]}" | grep -v '\.def$') 2>&1 | grep -oE '^[^:]+:[0-9]+' | cut -d: -f1 | sort -u)
  [[ -z $unformatted ]] || report "not clang-formatted (tools/format.sh does it):"$'\n'"$unformatted"
fi
exit $bad
