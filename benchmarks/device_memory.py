"""`python -m benchmarks.device_memory [--device D] [resnet50 whole decoding]`: what models take of
the device's memory beyond their weights.

In: ResNet-50 with one image, SmolLM2-135M with 1 × 128 tokens, and its prefill of 128 tokens with
its decoding, of random weights. Out: a row for each, with and without what is prepared of
parameters: all buffers after a run, and the most at once, the preparing launches among them.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mgn

MODELS = Path(__file__).resolve().parent.parent / "examples" / "models"


@dataclass
class Buffers:
    """Bytes of the buffers that there are, and the most that there were."""

    now: int = 0
    most: int = 0

    def add(self, size: int) -> None:
        """Counts a buffer that was made, or, where negative, one that went."""
        self.now += size
        self.most = max(self.most, self.now)


@contextmanager
def counted_buffers() -> Iterator[Buffers]:
    """All buffers that are made while it is open."""
    import pyopencl as cl

    found, plain = Buffers(), cl.Buffer

    class Counted(plain):  # type: ignore[misc, valid-type]
        """A buffer whose bytes are counted as long as it lives."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._counted = self.size
            found.add(self._counted)

        def release(self) -> None:
            super().release()
            self._leave()

        def _leave(self) -> None:
            found.add(-getattr(self, "_counted", 0))
            self._counted = 0

        __del__ = _leave

    cl.Buffer = Counted
    try:
        yield found
    finally:
        cl.Buffer = plain


def resnet50(device: str, prepare: bool) -> Any:
    """One image."""
    module = mgn.parse_file(MODELS / "resnet50.mgn")
    exe = mgn.compile(module, device=device, prepare=prepare)
    exe(**{name: np.zeros(type.shape, type.dtype) for name, type in exe.inputs.items()})
    return exe


def whole(device: str, prepare: bool) -> Any:
    """The logits of 1 × 128 tokens."""
    module = mgn.parse_file(MODELS / "smollm2.mgn")
    exe = mgn.compile(module, graph="whole", device=device, prepare=prepare)
    exe(tokens=np.zeros((1, 128), np.int32))
    return exe


def decoding(device: str, prepare: bool) -> Any:
    """A prompt of 128 tokens, and two tokens more."""
    module = mgn.parse_file(MODELS / "smollm2.mgn")
    graphs = ["prefill", "decode"]
    lm = mgn.compile(module, graph=graphs, device=device, prepare=prepare)
    lm["prefill"](tokens=np.zeros((1, 128), np.int32))
    for _ in range(2):
        lm["decode"](token=np.zeros(1, np.int32))
    return lm


CASES: dict[str, Callable[[str, bool], Any]] = {
    "resnet50": resnet50,
    "whole": whole,
    "decoding": decoding,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device_memory")
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("names", nargs="*", choices=[*CASES, []], help="the cases; all by default")
    options = parser.parse_args(arguments)
    print("| case | prepare | weights, MiB | states | after a run | beyond both, MB | at most |")
    print("|---|---|---|---|---|---|---|")
    for name in options.names or CASES:
        for prepare in (True, False):
            with counted_buffers() as buffers:
                exe = CASES[name](options.device, prepare)
                weights = sum(exe.params[item].nbytes for item in exe.params)
                states = sum(exe.state[item].nbytes for item in exe.state)
                beyond = (exe.allocated - weights - states) / 1e6
                sizes = (weights, states, exe.allocated, buffers.most)
                told = [f"{size / 2**20:.1f}" for size in sizes]
                del exe
            told.insert(3, f"{beyond:.1f}")
            print(f"| {name} | {'on' if prepare else 'off'} | {' | '.join(told)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
