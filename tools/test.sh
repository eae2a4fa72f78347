#!/usr/bin/env bash
# Builds everything and runs all tests; ends with ctest's summary.
#
#   tools/test.sh          release build with all tests; the runtime's tests under ThreadSanitizer with 20 seeds
#   tools/test.sh --all    also AddressSanitizer + UBSan, 200 seeds, longer fuzzing, and the models on all 64 grids
set -euo pipefail
cd "$(dirname "$0")/.."
all=0
[[ ${1:-} == --all ]] && all=1
jobs=$(nproc)
tools/setup.sh

build() {  # build FOLDER TARGET... -- CMAKE_ARGS...
  local folder=$1 targets=()
  shift
  while [[ $# -gt 0 && $1 != -- ]]; do targets+=("$1"); shift; done
  shift
  echo "== building $folder"
  cmake -S . -B "$folder" -G Ninja "$@" | grep "tessera:" || true
  ninja -C "$folder" -j "$jobs" --quiet "${targets[@]}"
}

build build/tsan tessera_runtime_tests -- -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTESSERA_SANITIZE=thread -DTESSERA_COMPILER=OFF
echo "== runtime tests under ThreadSanitizer"
seeds=20
((all)) && seeds=200
TESSERA_SEEDS=$seeds TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tools/tsan.supp ignore_noninstrumented_modules=1" \
  build/tsan/bin/tessera_runtime_tests --gtest_brief=1

if ((all)); then
  export TESSERA_ALL_GRIDS=1 TESSERA_MUTANTS=700
  build build/asan all -- -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTESSERA_SANITIZE=address,undefined
  (cd build/asan && ASAN_OPTIONS=detect_leaks=0 TESSERA_ALL_GRIDS= TESSERA_MUTANTS= ctest -j "$jobs" --output-on-failure --no-tests=error)
fi

build build/release all -- -DCMAKE_BUILD_TYPE=Release -DTESSERA_WERROR=ON
cd build/release
exec ctest -j "$jobs" --output-on-failure --no-tests=error --progress
