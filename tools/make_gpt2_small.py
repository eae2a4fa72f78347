#!/usr/bin/env python3
"""Writes a GPT-2 of any size as exporters write it, with random weights in external data: GPT-2 small by default.

    python3 -m venv scratch && scratch/bin/pip install onnx numpy
    scratch/bin/python tools/make_gpt2_small.py --out FOLDER [--layers 12 --hidden 768 --heads 12 --vocab 50257 --seed 0]

FOLDER/gpt2.onnx (opset 17, symbolic batch and sequence, flattened Gemms, fused QKV + Split, causal mask by Trilu and Where,
tanh-GELU chain, tied embedding) and FOLDER/gpt2.onnx.data. Weights are written one by one; memory stays small.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper


class Writer:
    def __init__(self, folder, seed):
        self.nodes, self.tensors, self.count = [], [], 0
        self.random = np.random.default_rng(seed)
        self.data_name = "gpt2.onnx.data"
        self.data = open(folder / self.data_name, "wb")

    def weight(self, name, shape, std=0.02, mean=0.0):
        values = (self.random.standard_normal(shape, dtype=np.float32) * std + mean).astype(np.float32)
        self.data.seek((self.data.tell() + 4095) // 4096 * 4096)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.data_name), ("offset", self.data.tell()), ("length", values.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.data.write(values.tobytes())
        self.tensors.append(tensor)
        return name

    def constant(self, values, dtype=np.int64):
        name = f"const_{len(self.tensors)}"
        self.tensors.append(onnx.numpy_helper.from_array(np.array(values, dtype=dtype), name))
        return name

    def op(self, kind, *inputs, outputs=1, **attrs):
        self.count += 1
        names = [f"{kind}_{self.count}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"/{kind}_{self.count}", **attrs))
        return names[0] if outputs == 1 else names


def linear(w, x, rows, shape_out, name, size_in, size_out):
    flat = w.op("Reshape", x, rows)
    y = w.op("Gemm", flat, w.weight(name + ".weight", [size_in, size_out]), w.weight(name + ".bias", [size_out]))
    return w.op("Reshape", y, shape_out)


def norm(w, x, name, hidden):
    return w.op("LayerNormalization", x, w.weight(name + ".weight", [hidden], mean=1.0), w.weight(name + ".bias", [hidden]), epsilon=1e-5)


def gelu(w, x):
    cube = w.op("Mul", w.op("Pow", x, w.constant(3.0, np.float32)), w.constant(0.044715, np.float32))
    inner = w.op("Tanh", w.op("Mul", w.op("Add", x, cube), w.constant(0.7978845608028654, np.float32)))
    return w.op("Mul", w.op("Mul", x, w.constant(0.5, np.float32)), w.op("Add", inner, w.constant(1.0, np.float32)))


def block(w, x, name, a, dims, mask):
    batch, sequence = dims
    rows = lambda n: w.constant([-1, n])
    out = lambda *tail: w.op("Concat", batch, sequence, w.constant(list(tail)), axis=0)
    h = norm(w, x, name + ".ln_1", a.hidden)
    qkv = linear(w, h, rows(a.hidden), out(3 * a.hidden), name + ".attn.c_attn", a.hidden, 3 * a.hidden)
    heads = []
    for part in w.op("Split", qkv, w.constant([a.hidden] * 3), outputs=3, axis=2):
        heads.append(w.op("Transpose", w.op("Reshape", part, out(a.heads, a.hidden // a.heads)), perm=[0, 2, 1, 3]))
    scores = w.op("MatMul", heads[0], w.op("Transpose", heads[1], perm=[0, 1, 3, 2]))
    scores = w.op("Div", scores, w.constant((a.hidden // a.heads) ** 0.5, np.float32))
    weights = w.op("Softmax", w.op("Where", mask, scores, w.constant(-3.4e38, np.float32)), axis=-1)
    merged = w.op("Reshape", w.op("Transpose", w.op("MatMul", weights, heads[2]), perm=[0, 2, 1, 3]), out(a.hidden))
    x = w.op("Add", x, linear(w, merged, rows(a.hidden), out(a.hidden), name + ".attn.c_proj", a.hidden, a.hidden))
    h = norm(w, x, name + ".ln_2", a.hidden)
    h = gelu(w, linear(w, h, rows(a.hidden), out(4 * a.hidden), name + ".mlp.c_fc", a.hidden, 4 * a.hidden))
    return w.op("Add", x, linear(w, h, rows(4 * a.hidden), out(a.hidden), name + ".mlp.c_proj", 4 * a.hidden, a.hidden))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True, type=pathlib.Path)
    for flag, value in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50257), ("positions", 1024), ("seed", 0)):
        parser.add_argument("--" + flag, type=int, default=value)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    w = Writer(a.out, a.seed)
    shape = w.op("Shape", "input_ids")
    batch, sequence = (w.op("Slice", shape, w.constant([i]), w.constant([i + 1])) for i in (0, 1))
    length = w.op("Squeeze", sequence, w.constant([0]))
    positions = w.op("Range", w.constant(0), length, w.constant(1))
    wte = w.weight("wte.weight", [a.vocab, a.hidden])
    x = w.op("Add", w.op("Gather", wte, "input_ids"), w.op("Gather", w.weight("wpe.weight", [a.positions, a.hidden], std=0.01), positions))
    square = w.op("Concat", w.constant([1, 1]), sequence, sequence, axis=0)
    ones = w.op("ConstantOfShape", square, value=onnx.numpy_helper.from_array(np.array([1.0], dtype=np.float32)))
    mask = w.op("Cast", w.op("Trilu", ones, upper=0), to=TensorProto.BOOL)
    for layer in range(a.layers):
        x = block(w, x, f"h.{layer}", a, (batch, sequence), mask)
    x = norm(w, x, "ln_f", a.hidden)
    logits = w.op("MatMul", x, w.op("Transpose", wte, perm=[1, 0]))
    w.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", a.vocab])
    graph = helper.make_graph(w.nodes, "gpt2", [ids], [out], initializer=w.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (a.out / "gpt2.onnx").write_bytes(model.SerializeToString())
    print(f"{a.out}/gpt2.onnx: {sum(np.prod(t.dims, dtype=np.int64) for t in w.tensors)} values")


if __name__ == "__main__":
    main()
