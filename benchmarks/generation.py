"""`python -m benchmarks.generation [--device D] [--layers N] [--tokens N]`: text from a model of
SmolLM2-135M's sizes, of random weights in bf16.

In: `examples/llama.mgn` and a folder of Hugging Face that is made here. Out: the times to compile,
to load and to the first token; tokens a second for each way to choose them, the slowest first; and
the time of a decoding step without a choice. 1 where the same seed draws other tokens.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import ml_dtypes
import numpy as np

import mgn
from mgn.runtime.weights import save_params
from mgn.text.configuration import configured
from mgn.text.model import DECODE, PREFILL, LanguageModel

PROGRAM = Path(__file__).resolve().parent.parent / "examples" / "llama.mgn"
PROMPT = list(range(100, 108))
WAYS: dict[str, dict[str, Any]] = {
    "the most likely": {},
    "temperature": {"temperature": 0.8},
    "temperature, top-k": {"temperature": 0.8, "top_k": 40},
    "temperature, top-p": {"temperature": 0.8, "top_p": 0.95},
    "all": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "repetition_penalty": 1.1},
}


def make_folder(folder: Path, layers: int) -> None:
    """A configuration and random weights under Llama's names."""
    d, ff, kv, classes = 576, 1536, 192, 49152
    config = {"hidden_size": d, "intermediate_size": ff, "num_hidden_layers": layers}
    config |= {"num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": classes}
    config |= {"rope_theta": 100_000, "tie_word_embeddings": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    dice = np.random.default_rng(0)
    shapes = {"model.embed_tokens.weight": (classes, d)}
    for layer in (f"model.layers.{number}" for number in range(layers)):
        shapes |= {f"{layer}.self_attn.{name}_proj.weight": (d, d) for name in "qo"}
        shapes |= {f"{layer}.self_attn.{name}_proj.weight": (kv, d) for name in "kv"}
        shapes |= {f"{layer}.mlp.{name}_proj.weight": (ff, d) for name in ("gate", "up")}
        shapes[f"{layer}.mlp.down_proj.weight"] = (d, ff)
    arrays: dict[str, np.ndarray] = {
        name: (dice.standard_normal(shape, np.float32) * 0.06).astype(ml_dtypes.bfloat16)
        for name, shape in shapes.items()
    }
    norms = ["model.norm.weight"]
    for name in ("input_layernorm", "post_attention_layernorm"):
        norms += [f"model.layers.{number}.{name}.weight" for number in range(layers)]
    arrays |= {name: np.ones(d, ml_dtypes.bfloat16) for name in norms}
    save_params(folder / "model.safetensors", arrays)


def step_seconds(lm: mgn.Program) -> float:
    """The median time of a decoding step whose logits stay on the device."""
    model = LanguageModel(lm)
    model.read(PROMPT)
    times: list[float] = []
    for _ in range(20):
        start = time.perf_counter()
        model.decode.run([1])
        lm.params.session.queue.finish()
        times.append(time.perf_counter() - start)
    return median(times)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the figures. 1 where tokens differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation")
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder, options.layers)
        module = mgn.parse_file(PROGRAM)
        known = module.dimensions_of(PREFILL) | module.dimensions_of(DECODE)
        module, sizes = configured(module, folder, known)
        dims = {**sizes, "S": 16, "ROOM": 16 + options.tokens}
        start = time.perf_counter()
        lm = mgn.compile(module, [PREFILL, DECODE], dims, device=options.device)
        compiled = time.perf_counter()
        lm.load_params(folder)
        print(f"compiled in {compiled - start:.2f} s", end="; ")
        print(f"loaded in {time.perf_counter() - compiled:.2f} s: {lm['decode'].report.loaded}")
    print(f"a decoding step takes {step_seconds(lm) * 1e3:.2f} ms")
    rates: dict[str, float] = {}
    same = True
    for way, sampling in WAYS.items():
        first = list(mgn.generate(lm, PROMPT, tokens=options.tokens, **sampling))
        start = time.perf_counter()
        tokens = mgn.generate(lm, PROMPT, tokens=options.tokens, **sampling)
        found = [next(tokens)]
        begun = time.perf_counter()
        found += list(tokens)
        rates[way] = (options.tokens - 1) / (time.perf_counter() - begun)
        print(f"{way}: the first token after {(begun - start) * 1e3:.1f} ms")
        same &= found == first
    for way, rate in sorted(rates.items(), key=lambda item: item[1]):
        print(f"{rate:8.1f} tokens a second: {way}")
    print("the same seed draws", "the same tokens" if same else "OTHER tokens")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
