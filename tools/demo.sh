#!/usr/bin/env bash
# From a fresh clone to a falling loss: installs what is needed, builds, compiles a real exported GPT for a 4D grid, trains it
# on 8 local ranks for about a minute, and shows where everything lies.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
echo "== building (a few minutes the first time)"
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release | grep "tessera:" || true
ninja -C build/release --quiet tessera tessera-run tessera-opt

bin=build/release/bin
out=build/demo
steps=${DEMO_STEPS:-250}
rm -rf "$out"
mkdir -p "$out"
echo "== the text as byte tokens"
python3 tools/text_to_tokens.py test/data/demo/text.txt "$out/tokens.bin" | tee "$out/tokens.txt"
echo "== compiling test/data/demo/gpt_char.onnx for the grid data=2, z=2, y=2, x=1"
"$bin/tessera" compile test/data/demo/gpt_char.onnx --train --bind batch=16,sequence=64 --grid data=2,z=2,y=2,x=1 \
  --optimizer adamw:lr=2e-3,beta1=0.9,beta2=0.95,eps=1e-8,weight_decay=0.1 --clip-norm 1.0 \
  --dump-dir "$out/dumps" --remarks -o "$out/gpt.plan" | grep -v "^remark: constant"
echo "== training on 8 local ranks (threads of one process), $steps steps"
"$bin/tessera-run" "$out/gpt.plan" --data "$out/tokens.bin" --steps "$steps" --log "$out/log.jsonl" --trace "$out/trace.json"
python3 - "$out" <<'PY'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
losses = [json.loads(line)["loss"] for line in (out / "log.jsonl").open()]
entropy = float((out / "tokens.txt").read_text().split()[-1])
top, bottom = max(losses), min(losses)
print("\n  loss")
points = [losses[i * (len(losses) - 1) // 11] for i in range(12)] if len(losses) > 12 else losses
for i, loss in enumerate(points):
    step = i * (len(losses) - 1) // max(1, len(points) - 1)
    print(f"  {step:5d}  {loss:.4f}  " + "#" * round(1 + 50 * (loss - 0.8 * bottom) / (top - 0.8 * bottom)))
last = sum(losses[-10:]) / len(losses[-10:])
print(f"\n  mean of the last 10 steps {last:.4f}; the text's unigram entropy {entropy:.4f}")
if not last < entropy:
    sys.exit("the loss did not fall below the unigram entropy: something is wrong")
PY
cat <<TXT

  plan    $out/gpt.plan/plan.txt        one step a line, one text for all ranks
  dumps   $out/dumps/NN.pass.tir        the module after each pass
  log     $out/log.jsonl                one JSON object a step
  trace   $out/trace.json               open in https://ui.perfetto.dev or chrome://tracing

  next:
    $bin/tessera-run $out/gpt.plan --list
    $bin/tessera-run $out/gpt.plan --data $out/tokens.bin --steps 20 --ranks mpi:8
    $bin/tessera compile test/data/demo/gpt_char.onnx --train --bind batch=16,sequence=64 --grid data=1,z=2,y=2,x=2 -o $out/other.plan
    $bin/tessera-opt $out/dumps/00.import_onnx.tir --unflatten-reshapes | less
TXT
