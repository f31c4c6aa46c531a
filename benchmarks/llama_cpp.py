"""`python -m benchmarks.llama_cpp [--device D] [--formats f32,q8_0] [--layers N] [--tokens N]`:
tokens a second beside llama.cpp, in SmolLM2-135M's sizes, of the same random weights.

In: the packages `llama-cpp-python` and `gguf`; without them mgn is timed alone. Out: for each
format of the weights, tokens a second of greedy decoding with a cache, the two in turns; which
share of the bandwidth bound mgn reaches, where all weights are read once a token; and how many of
the tokens are those of llama.cpp, which rounds what it multiplies with packed weights to 8 bits.

Threads that wait for one another spin, so that times mislead where other work shares the machine.
There `taskset -c 0 python -m benchmarks.llama_cpp --threads 1 --cpu-time` compares one core each.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import mgn
from benchmarks.cached_decoding import SIZES, program_text
from mgn.api import describe_device
from mgn.bench.timing import SHARED
from mgn.driver.residency import RESIDENCIES

ROOM = 512
PROMPT = [100, 7, 4000, 31, 9, 256, 1024, 77]
FORMATS = "f32,q8_0,q4_1"
EPSILON, THETA = 1e-5, 10000.0
NAMES = {
    **{name: f"attn_{name}" for name in "qkv"},
    **{"o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"},
    **{"g1": "attn_norm", "g2": "ffn_norm"},
}
"""Parameters of a layer, and what a file of llama.cpp calls them."""

Step = Callable[[int], int]
"""The token that is most likely after one more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llama_cpp")
    parser.add_argument("--device", default="cpu", help="as in mgn-run")
    parser.add_argument("--formats", default=FORMATS, help="of the weights")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--resident", choices=RESIDENCIES, default="on", help="as in mgn-run")
    parser.add_argument("--threads", type=int, default=2, help="those of llama.cpp")
    parser.add_argument("--cpu-time", action="store_true", help="count seconds of processors")
    options = parser.parse_args(arguments)
    if options.tokens + len(PROMPT) > ROOM:
        parser.error(f"--tokens: there is room for {ROOM - len(PROMPT)}")
    for format in options.formats.split(","):
        print(measured(format, options), flush=True)
    return 0


def measured(format: str, options: argparse.Namespace) -> str:
    """A line of the table."""
    weights = drawn(format, options.layers)
    own = _Mgn(format, weights, options)
    contestants: dict[str, Any] = {"mgn": own}
    with tempfile.TemporaryDirectory() as folder:
        peer = llama_cpp(Path(folder) / "model.gguf", format, weights, options)
        if peer is not None:
            contestants["llama.cpp"] = peer
        del weights
        times: dict[str, list[float]] = {name: [] for name in contestants}
        tokens: dict[str, list[int]] = {}
        clock = time.process_time if options.cpu_time else time.perf_counter
        for _ in range(options.rounds):
            for name, contestant in contestants.items():
                time.sleep(SHARED.pause)
                tokens[name], seconds = decoded(contestant, options.tokens, clock)
                times[name] += seconds
    rates = {name: 1 / median(seconds) for name, seconds in times.items()}
    said = ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
    share = rates["mgn"] * own.bound
    line = f"{format:5} {said} tokens/s; {share:.2f} of the bandwidth bound"
    if "llama.cpp" not in times:
        return f"{line}; llama-cpp-python and gguf are not installed"
    alike = sum(a == b for a, b in zip(*tokens.values(), strict=True))
    ahead = rates["mgn"] / rates["llama.cpp"]
    return f"{line}; {ahead:.2f} of llama.cpp, {alike} of {options.tokens} tokens are alike"


def decoded(
    contestant: Any, count: int, clock: Callable[[], float]
) -> tuple[list[int], list[float]]:
    """Greedy tokens after the prompt, and the seconds of each."""
    step = contestant.begin()
    for token in PROMPT[:-1]:
        step(token)
    tokens, seconds, token = list[int](), list[float](), PROMPT[-1]
    for _ in range(count):
        start = clock()
        token = step(token)
        seconds.append(clock() - start)
        tokens.append(token)
    return tokens, seconds


def drawn(format: str, layers: int) -> dict[str, np.ndarray]:
    """Random weights by mgn's names, packed where the format is one of blocks."""
    d, ff, kv = SIZES["D"], SIZES["FF"], SIZES["KV"] * SIZES["HD"]
    dice = np.random.default_rng(0)
    shapes = {"q": (d, d), "k": (kv, d), "v": (kv, d), "o": (d, d)}
    shapes |= {"gate": (ff, d), "up": (ff, d), "down": (d, ff)}
    found = {"embed": 0.05 * dice.standard_normal((SIZES["VOCAB"], d), np.float32)}
    for layer in range(layers):
        for name, shape in shapes.items():
            found[f"layers.{layer}.{name}.weight"] = 0.06 * dice.standard_normal(shape, np.float32)
    if format != "f32":
        found = {name: mgn.pack_blocks(array, format) for name, array in found.items()}
    ones = np.ones(d, np.float32)
    return {**found, "norm": ones} | {
        f"layers.{layer}.{name}": ones for layer in range(layers) for name in ("g1", "g2")
    }


class _Mgn:
    """A compiled decoding step, whose tokens stay on the device."""

    def __init__(
        self, format: str, weights: dict[str, np.ndarray], options: argparse.Namespace
    ) -> None:
        text = program_text(options.layers, ROOM)
        text = text.replace("f32[n_out, n_in]", f"{format}[n_out, n_in]")
        text = text.replace("embed: f32", f"embed: {format}")
        text = text.replace("head_dim = HD, theta", "head_dim = HD, interleaved = true, theta")
        self._exe = mgn.compile(
            mgn.parse(text), graph="decode", device=options.device, resident=options.resident
        )
        for name, array in weights.items():
            self._exe.params[name] = array
        read = sum(array.nbytes for array in weights.values())
        self.bound = describe_device(self._exe.device).seconds_to_move(read)

    def begin(self) -> Step:
        self._exe.reset()
        return lambda token: int(self._exe(token=np.array([token], np.int32))["next"][0])


class _LlamaCpp:
    def __init__(self, path: Path, threads: int) -> None:
        from llama_cpp import Llama, llama_get_logits

        words = {"n_threads": threads, "n_threads_batch": threads, "verbose": False}
        self._model: Any = Llama(str(path), n_ctx=ROOM, n_batch=ROOM, **words)
        self._logits = llama_get_logits

    def begin(self) -> Step:
        self._model.reset()

        def step(token: int) -> int:
            self._model.eval([token])
            found = self._logits(self._model.ctx)
            return int(np.argmax(np.ctypeslib.as_array(found, (SIZES["VOCAB"],))))

        return step


def llama_cpp(
    path: Path, format: str, weights: dict[str, np.ndarray], options: argparse.Namespace
) -> _LlamaCpp | None:
    """llama.cpp with the weights, written as a file of its own; None where it is not installed."""
    if not all(importlib.util.find_spec(name) for name in ("llama_cpp", "gguf")):
        return None
    import gguf

    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(ROOM)
    writer.add_embedding_length(SIZES["D"])
    writer.add_block_count(options.layers)
    writer.add_feed_forward_length(SIZES["FF"])
    writer.add_head_count(SIZES["HEADS"])
    writer.add_head_count_kv(SIZES["KV"])
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(SIZES["HD"])
    writer.add_rope_freq_base(THETA)
    writer.add_vocab_size(SIZES["VOCAB"])
    writer.add_tokenizer_model("no_vocab")
    for name, array in weights.items():
        type = getattr(gguf.GGMLQuantizationType, format.upper() if array.ndim > 1 else "F32")
        writer.add_tensor(_file_name(name), array, raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return _LlamaCpp(path, options.threads)


def _file_name(name: str) -> str:
    """What a file of llama.cpp calls a parameter."""
    if not name.startswith("layers."):
        return {"embed": "token_embd.weight", "norm": "output_norm.weight"}[name]
    _, layer, own, *_ = name.split(".")
    return f"blk.{layer}.{NAMES[own]}.weight"


if __name__ == "__main__":
    sys.exit(main())
