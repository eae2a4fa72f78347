#!/usr/bin/env python3
"""What the models of arXiv 2305.13525 would take on Perlmutter under every strategy, and whether `auto` is never worse.

    tools/paper_table.py [--bin build/release/bin] [--models 5B,80B,...] [--devices 32,1024,...] [--batch 1024]

Times are the cost model's, without overlap of communication and compute. Shares of peak count FLOPs as the paper does: 96 B S L H^2 (1 + S/(6H) + V/(16 L H)),
with the recomputed forward pass. A strategy that does not fit says so. The last lines are the published comparison: 80B on 1024 devices.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

MODELS = {  # layers, hidden, heads
    "5B": (24, 4096, 32), "10B": (32, 5120, 40), "20B": (32, 7168, 56), "40B": (38, 9216, 72), "50B": (48, 9216, 72),
    "60B": (56, 9216, 72), "80B": (42, 12288, 96), "100B": (53, 12288, 96), "160B": (84, 12288, 96), "175B": (96, 12288, 96)}
S, V, PEAK = 2048, 51200, 312e12

parser = argparse.ArgumentParser()
parser.add_argument("--bin", default="build/release/bin")
parser.add_argument("--models", default=",".join(MODELS))
parser.add_argument("--devices", default="32,64,128,256,512,1024,2048,4096")
parser.add_argument("--batch", type=int, default=1024)
args = parser.parse_args()
work = pathlib.Path(tempfile.mkdtemp(prefix="tessera-paper-"))
zoo = {}


def plan(model, devices, batch, *more):
    layers, hidden, heads = MODELS[model]
    if model not in zoo:
        zoo[model] = work / f"{model}.onnx"
        subprocess.run([f"{args.bin}/tessera", "zoo", "gpt", "--layers", str(layers), "--hidden", str(hidden), "--heads", str(heads), "--vocab", str(V),
                        "--sequence", str(S), "--dtype", "bf16", "-o", str(zoo[model])], check=True)
    out = work / "plan"
    done = subprocess.run([f"{args.bin}/tessera", "compile", str(zoo[model]), "--train", "--bind", f"batch={batch},sequence={S}", "--machine", "perlmutter",
                           "--devices", str(devices), *more, "-o", str(out)], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.splitlines()[0]
    return json.loads((out / "search.json").read_text()), ""


def share(model, devices, batch, seconds):
    layers, hidden, _ = MODELS[model]
    flops = 96 * batch * S * layers * hidden**2 * (1 + S / (6 * hidden) + V / (16 * layers * hidden))
    return flops / seconds / devices / PEAK


worse = 0
for model in args.models.split(","):
    for devices in map(int, args.devices.split(",")):
        found, why = plan(model, devices, args.batch)
        if found is None:
            print(f"{model:5} {devices:5} devices: {why}", flush=True)
            continue
        rows = {row["name"]: row for row in found["strategies"]}
        best = rows["auto"]
        for name, row in rows.items():
            text = f"{row['seconds']:9.3f} s  {100 * share(model, devices, args.batch, row['seconds']):5.1f}% of peak" if row["fits"] else "  does not fit            "
            print(f"{model:5} {devices:5} devices  {name:12} {text} {row['memory_bytes'] / 1e9:8.1f} GB  {row['grid']:30} {row['options']}")
            if row["fits"] and row["seconds"] < best["seconds"] * (1 - 1e-6):
                print(f"      auto is worse than {name}")
                worse += 1
        print(flush=True)
print(f"auto is worse than a named strategy {worse} times")
print("80B on 1024 devices, axonn with the whole forward pass recomputed, as published (57% of peak):")
for batch in (1024, 2048, 4096, 8192):
    found, why = plan("80B", 1024, batch, "--strategy", "axonn", "--recompute", "block")
    row = next(r for r in found["strategies"] if r["name"] == "axonn")
    print(f"  batch {batch:5}: {row['seconds']:7.2f} s = compute {row['compute_seconds']:6.2f} + communication {row['communication_seconds']:5.2f}, "
          f"{100 * share('80B', 1024, batch, row['seconds']):.1f}% of peak, {row['grid']}")
found, _ = plan("80B", 1024, args.batch)
rows = {row["name"]: row for row in found["strategies"]}
print(f"80B on 1024 devices, batch {args.batch}: megatron / axonn = {rows['megatron']['seconds'] / rows['axonn']['seconds']:.2f}, "
      f"axonn / auto = {rows['axonn']['seconds'] / rows['auto']['seconds']:.2f}")
raise SystemExit(1 if worse else 0)
