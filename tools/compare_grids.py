#!/usr/bin/env python3
"""Predicted against measured step time over all grids of local ranks: prints a table, the rank correlation, and how far
the grid that the prediction prefers is from the best measured one.

    tools/compare_grids.py [--ranks 8] [--steps 6] [--model test/data/demo/gpt_char.onnx] [--bind batch=16,sequence=64]

Calibrates this machine first (tessera calibrate).
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("--bin", default="build/release/bin")
parser.add_argument("--ranks", type=int, default=8)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--model", default="test/data/demo/gpt_char.onnx")
parser.add_argument("--bind", default="batch=16,sequence=64")
parser.add_argument("--tokens", default="test/data/demo/text.txt", help="bytes that become tokens")
args = parser.parse_args()


def run(*line):
    return subprocess.run([str(part) for part in line], check=True, capture_output=True, text=True).stdout


def grids(n):
    for data in range(1, n + 1):
        for z in range(1, n + 1):
            for y in range(1, n + 1):
                if n % (data * z * y) == 0:
                    yield f"data={data},z={z},y={y},x={n // (data * z * y)}"


def ranks_of(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0] * len(values)
    for place, i in enumerate(order):
        ranks[i] = place
    return ranks


work = pathlib.Path(tempfile.mkdtemp(prefix="tessera-grids-"))
run(f"{args.bin}/tessera", "calibrate", "--ranks", args.ranks, "-o", work / "machine.json")
run("python3", "tools/text_to_tokens.py", args.tokens, work / "tokens.bin")
predicted, measured = [], []
print(f"{'grid':28} predicted    measured")
for grid in grids(args.ranks):
    plan = work / "plan"
    run(f"{args.bin}/tessera", "compile", args.model, "--train", "--bind", args.bind, "--grid", grid, "-o", plan)
    predicted.append(json.loads(run(f"{args.bin}/tessera", "explain", plan, "--machine", work / "machine.json", "--json"))["seconds"])
    run(f"{args.bin}/tessera-run", plan, "--data", work / "tokens.bin", "--steps", args.steps, "--random-weights", 1, "--quiet", "--log", work / "log")
    steps = [json.loads(line)["seconds"] for line in (work / "log").open()]
    measured.append(statistics.median(steps[1:]))
    print(f"{grid:28} {predicted[-1] * 1e3:8.1f} ms {measured[-1] * 1e3:8.1f} ms", flush=True)
a, b = ranks_of(predicted), ranks_of(measured)
n = len(a)
spearman = 1 - 6 * sum((p - q) ** 2 for p, q in zip(a, b)) / (n * (n * n - 1))
chosen = measured[predicted.index(min(predicted))]
print(f"Spearman {spearman:.3f}; the chosen grid takes {chosen / min(measured):.2f} of the best measured one")
