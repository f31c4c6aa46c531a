"""`python -m benchmarks.cached_decoding [--device D] [--layers N] [--tokens N]`: decoding with a
cache, in SmolLM2-135M's sizes, of random weights.

In: `examples/cached_decoder.mgn` with other constants. Out: what crosses between host and device in
one decoding step, what parameters and states take on the device, the rate of decoding, and whether
greedy decoding gives the tokens that follow by the graph without a cache.
"""

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import mgn

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "cached_decoder.mgn"
PROMPT = 8
SIZES = {"D": 576, "HEADS": 9, "KV": 3, "HD": 64, "FF": 1536, "VOCAB": 49152}


def program_text(layers: int, room: int) -> str:
    """The example with SmolLM2's constants."""
    constants = {**SIZES, "LAYERS": layers, "ROOM": room}
    listing = ", ".join(f"{name} = {value}" for name, value in constants.items())
    text = EXAMPLE.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^const .*$", f"const {listing}", text)
    return text.replace("std = 0.3", "std = 0.06").replace("std = 1.0", "std = 0.05")


@contextmanager
def counted_bytes() -> Iterator[list[int]]:
    """The bytes of each copy between the host and the device, while it is open."""
    import pyopencl as cl

    found: list[int] = []
    plain = cl.enqueue_copy

    def counting(queue: Any, target: Any, source: Any, **options: Any) -> Any:
        found.extend(item.nbytes for item in (target, source) if isinstance(item, np.ndarray))
        return plain(queue, target, source, **options)

    cl.enqueue_copy = counting
    try:
        yield found
    finally:
        cl.enqueue_copy = plain


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the figures. 1 where tokens differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cached_decoding")
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args(arguments)
    whole_length = PROMPT + options.tokens - 1
    program = mgn.parse(program_text(options.layers, whole_length + 1))
    dims = {"prefill": {"S": PROMPT}, "whole": {"S": whole_length}}
    lm = mgn.compile(
        program, graph=["prefill", "decode"], dims=dims["prefill"], device=options.device
    )
    prompt = np.random.default_rng(1).integers(0, SIZES["VOCAB"], (1, PROMPT)).astype(np.int32)
    token: Any = lm["prefill"](tokens=prompt)["next"]
    tokens = [int(token[0])]
    token = lm["decode"](token=token)["next"]
    tokens.append(int(token[0]))
    with counted_bytes() as copied:
        token = lm["decode"](token=token)["next"]
    tokens.append(int(token[0]))
    start = time.perf_counter()
    for _ in range(options.tokens - 3):
        token = lm["decode"](token=token)["next"]
        tokens.append(int(token[0]))
    rate = (options.tokens - 3) / (time.perf_counter() - start)
    held = sum(lm.params[name].nbytes for name in lm.params)
    states = sum(lm.state[name].nbytes for name in lm.state)
    print(f"one decoding step copies {sum(copied)} bytes between host and device")
    print(f"parameters {held / 2**20:.1f} MiB, states {states / 2**20:.1f} MiB", end="; ")
    print(
        f"held on the device {lm.params.session.held_bytes / 2**20:.1f} MiB, once for both graphs"
    )
    print(f"all device memory {lm.allocated / 2**20:.1f} MiB")
    print(f"{rate:.1f} tokens a second")
    exe = mgn.compile(program, graph="whole", dims=dims["whole"], device=options.device)
    for name in exe.params:
        exe.params[name] = lm.params[name]
    sequence = np.concatenate([prompt[0], tokens[:-1]])[None].astype(np.int32)
    same = exe(tokens=sequence)["next"][0, PROMPT - 1 :].tolist() == tokens
    said = "those" if same else "NOT those"
    print(f"{options.tokens} tokens, {len(set(tokens))} different, are {said} that are recomputed")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
