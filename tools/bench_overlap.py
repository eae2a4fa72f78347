#!/usr/bin/env python3
"""Step time with overlap against without, over a modelled link, and both against the simulator.

Two local ranks (one core each) train a GPT; the link between them is modelled (`tessera-run --link`) so that
communication takes about as long as compute. Pairs of runs are interleaved; printed are medians, their ratio, and what
`tessera explain` predicts for both, on this machine as `tessera calibrate` measures it.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

CASES = [  # name, grid, flags, the most that the ratio may be
    ("z=2", "data=1,z=2,y=1,x=1", [], 0.70),
    ("x=2", "data=1,z=1,y=1,x=2", [], 0.80),
    ("data=2", "data=2,z=1,y=1,x=1", [], 0.75),
    ("data=2, zero1", "data=2,z=1,y=1,x=1", ["--zero1"], 0.70),
]
ALPHA = 50e-6


def run(line):
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, line))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.tessera, self.tessera_run = f"{args.bin}/tessera", f"{args.bin}/tessera-run"
        run([self.tessera, "zoo", "gpt", "--layers", args.layers, "--hidden", args.hidden, "--heads", 8, "--vocab", 512, "--sequence", 256,
             "-o", folder / "model.onnx"])
        run([self.tessera, "calibrate", "--ranks", 2, "-o", folder / "calibrated.json"])
        self.machine = json.loads((folder / "calibrated.json").read_text())
        tokens = bytes(n * 37 % 251 if i == 0 else 0 for n in range(20000) for i in range(2))
        (folder / "tokens.bin").write_bytes(tokens)

    def linked(self, beta):
        """The measured machine with another link."""
        machine = dict(self.machine, measured=[], links=[{"name": "modelled", "bandwidth": beta, "latency": ALPHA}])
        path = self.folder / "machine.json"
        path.write_text(json.dumps(machine))
        return path

    def plan(self, grid, flags, overlap, machine):
        plan = self.folder / f"{overlap}.plan"
        run([self.tessera, "compile", self.folder / "model.onnx", "--train", "--bind", f"batch={self.args.batch},sequence=256", "--grid", grid,
             "--overlap", overlap, "--machine", machine, *flags, "-o", plan])
        return plan, json.loads(run([self.tessera, "explain", plan, "--machine", machine, "--json"]))

    def beta(self, grid, flags):
        """A bandwidth at which communication takes as long as compute does (latencies apart)."""
        _, told = self.plan(grid, flags, "none", self.linked(1e9))
        compute = told["compute_seconds"] + told["optimizer_seconds"]
        count = sum(row["count"] for row in told["collectives"])
        sent = sum(row["bytes_sent"] for row in told["collectives"])
        return sent / max(1e-3, compute - count * ALPHA)

    def step_seconds(self, plan, beta):
        log = self.folder / "log"
        run([self.tessera_run, plan, "--random-weights", 1, "--data", self.folder / "tokens.bin", "--steps", 4, "--quiet", "--log", log,
             "--link", f"alpha={ALPHA * 1e6}us,beta={beta / 1e6:.6f}MB/s"])
        steps = [json.loads(line)["seconds"] for line in log.read_text().splitlines()]
        return statistics.median(steps[1:])  # the first one touches its memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="where tessera and tessera-run are")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--only", help="one case, by name")
    args = parser.parse_args()
    print(f"{'case':16} {'link':>12} {'without':>10} {'with':>10} {'ratio':>7} {'limit':>6}   predicted: without, with (error)")
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(args, Path(name))
        for case, grid, flags, limit in CASES:
            if args.only and case != args.only:
                continue
            beta = bench.beta(grid, flags)
            machine = bench.linked(beta)
            (off, told_off), (on, told_on) = (bench.plan(grid, flags, o, machine) for o in ("none", "all"))
            pairs = [(bench.step_seconds(off, beta), bench.step_seconds(on, beta)) for _ in range(args.pairs)]
            without, with_ = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            ratio = statistics.median(b / a for a, b in pairs)
            errors = [told["seconds"] / seconds - 1 for told, seconds in ((told_off, without), (told_on, with_))]
            print(f"{case:16} {beta / 1e6:7.1f} MB/s {1e3 * without:7.1f} ms {1e3 * with_:7.1f} ms {ratio:7.3f} {limit:6.2f}   "
                  f"{1e3 * told_off['seconds']:.1f} ms ({100 * errors[0]:+.0f}%), {1e3 * told_on['seconds']:.1f} ms ({100 * errors[1]:+.0f}%)", flush=True)


if __name__ == "__main__":
    main()
