#!/usr/bin/env bash
# Runs the `// RUN:` lines of one test file: run_filetest.sh FILE SCRATCH_FOLDER
# %s is the file, %t a scratch name, %data the folder of test data; FileCheck and `not` (which wants a failure) are known.
set -euo pipefail
file=$1 scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"
script=$(sed -n 's|^// RUN: *||p' "$file" | sed -e "s|%s|$file|g" -e "s|%t|$scratch/out|g" -e "s|%data|$TEST_DATA|g")
[[ -n $script ]] || { echo "$file: no RUN line" >&2; exit 1; }
prelude='FileCheck() { "$FILECHECK" "$@"; }
not() { local rc=0; "$@" || rc=$?; [[ $rc -eq 2 ]] || { echo "expected exit code 2, got $rc" >&2; return 1; }; }'
bash -o pipefail -euc "$prelude
$script"
