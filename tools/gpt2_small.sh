#!/usr/bin/env bash
# GPT-2 small at its true size (12 layers, 768, 12 heads, vocabulary 50257, sequence 256, random weights in external data) at
# batch 8 on 8 local ranks: prints compile seconds, seconds a step and the peak of summed PSS, for three grids.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/release/bin
work=${1:-build/gpt2_small}
mkdir -p "$work"
if [[ ! -f $work/gpt2.onnx ]]; then
  /usr/bin/python3 -m venv "$work/venv"
  "$work/venv/bin/pip" --quiet --disable-pip-version-check install onnx numpy
  "$work/venv/bin/python" tools/make_gpt2_small.py --out "$work"
fi
python3 -c "
import random, struct
random.seed(1)
open('$work/tokens.bin', 'wb').write(b''.join(struct.pack('<H', random.randrange(50257)) for _ in range(20000)))"
for grid in data=2,z=2,y=2,x=1 data=1,z=1,y=1,x=8 data=1,z=8,y=1,x=1; do
  start=$(date +%s.%N)
  "$bin/tessera" compile "$work/gpt2.onnx" --train --bind batch=8,sequence=256 --grid $grid -o "$work/plan"
  compiled=$(date +%s.%N)
  "$bin/tessera-run" "$work/plan" --data "$work/tokens.bin" --steps 3 --quiet --log "$work/log.jsonl" &
  job=$! peak=0
  while kill -0 $job 2>/dev/null; do
    pss=$(awk '/^Pss:/ {sum += $2} END {print sum + 0}' /proc/$job/smaps_rollup 2>/dev/null || echo 0)
    ((pss > peak)) && peak=$pss
    sleep 0.3
  done
  wait $job
  python3 - "$work/log.jsonl" "$grid" "$start" "$compiled" "$peak" <<'PY'
import json, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
print(f"grid {sys.argv[2]}  compile {float(sys.argv[4]) - float(sys.argv[3]):.1f} s  step {min(s['seconds'] for s in steps):.1f} s  "
      f"peak PSS {int(sys.argv[5]) / 1048576:.1f} GiB  losses {[round(s['loss'], 3) for s in steps]}")
PY
done
