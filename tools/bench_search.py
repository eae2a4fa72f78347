#!/usr/bin/env python3
"""How long `tessera compile` takes to plan a GPT of 175B's width, by layers and by devices, and where the time goes.

    tools/bench_search.py [--bin build/release/bin] [--layers 12,24,48,96,192] [--devices 8,64,512,1024,4096,16384]

Prints a table of seconds and peak memory, the ratios by which both grow, and the split by stage for 96 layers on 1024 devices.
"""
import argparse
import pathlib
import re
import resource
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("--bin", default="build/release/bin")
parser.add_argument("--layers", default="12,24,48,96,192")
parser.add_argument("--devices", default="8,64,512,1024,4096,16384")
args = parser.parse_args()
work = pathlib.Path(tempfile.mkdtemp(prefix="tessera-search-"))


def zoo(layers):
    path = work / f"gpt{layers}.onnx"
    if not path.exists():
        subprocess.run([f"{args.bin}/tessera", "zoo", "gpt", "--layers", str(layers), "--hidden", "12288", "--heads", "96", "--vocab", "51200",
                        "--sequence", "2048", "--dtype", "bf16", "-o", str(path)], check=True)
    return path


def plan(layers, devices):
    # A width that few devices cannot hold is planned with the memory that it takes: the search's time is the question.
    line = [f"{args.bin}/tessera", "compile", str(zoo(layers)), "--train", "--bind", "batch=1024,sequence=2048", "--machine", "perlmutter",
            "--devices", str(devices), "--max-memory", str(10**13), "--timings", "-o", str(work / "plan")]
    start = time.monotonic()
    done = subprocess.run(line, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return seconds, done.stdout


layers_list = [int(x) for x in args.layers.split(",")]
devices_list = [int(x) for x in args.devices.split(",")]
print("layers", *(f"{d:>9} dev" for d in devices_list))
table = {}
for layers in layers_list:
    for devices in devices_list:
        table[layers, devices] = plan(layers, devices)
    print(f"{layers:6}", *(f"{table[layers, d][0]:11.2f} s" for d in devices_list), flush=True)
first, last = layers_list[0], layers_list[-1]
for devices in devices_list:
    ratio = table[last, devices][0] / table[first, devices][0]
    print(f"{devices} devices: {last // first} x the layers take {ratio:.1f} x the time")
for layers in layers_list:
    ratio = table[layers, devices_list[-1]][0] / table[layers, devices_list[0]][0]
    print(f"{layers} layers: {devices_list[-1] // devices_list[0]} x the devices take {ratio:.1f} x the time")
print(f"peak memory of the largest: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")
if (96, 1024) in table:
    print("96 layers on 1024 devices, within a device's memory:")
    line = [f"{args.bin}/tessera", "compile", str(zoo(96)), "--train", "--bind", "batch=1024,sequence=2048", "--machine", "perlmutter", "--devices",
            "1024", "--timings", "-o", str(work / "plan")]
    start = time.monotonic()
    output = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    for name, seconds in re.findall(r"^time (\S+)\s+(\S+) s", output, re.M):
        print(f"  {name:24} {float(seconds):7.3f} s")
    print(f"  {'all':24} {time.monotonic() - start:7.3f} s")
