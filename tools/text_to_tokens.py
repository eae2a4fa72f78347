#!/usr/bin/env python3
"""Turns a text into byte tokens: text_to_tokens.py TEXT OUT.bin [VOCABULARY]   (uint16, little endian)

Bytes of VOCABULARY (default 128) and above become '?'. Prints the count and the unigram entropy in nats: the loss of a model
that knows how often each byte occurs, and nothing else.
"""
import array
import collections
import math
import pathlib
import sys


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    vocabulary = int(sys.argv[3]) if len(sys.argv) == 4 else 128
    data = [byte if byte < vocabulary else ord("?") for byte in pathlib.Path(sys.argv[1]).read_bytes()]
    tokens = array.array("H", data)
    if sys.byteorder == "big":
        tokens.byteswap()
    pathlib.Path(sys.argv[2]).write_bytes(tokens.tobytes())
    counts = collections.Counter(data)
    entropy = -sum(n / len(data) * math.log(n / len(data)) for n in counts.values())
    print(f"tokens {len(data)} distinct {len(counts)} unigram_entropy {entropy:.4f}")


if __name__ == "__main__":
    main()
