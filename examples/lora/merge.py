"""Merges low-rank factors into the weights that they belong to.

In: a checkpoint, and the factors that were trained for it. Out: a checkpoint in safetensors of the
same names, shapes and types, whose adapted weights are `weight + scale * B @ A`.

    python examples/lora/merge.py base.safetensors factors.safetensors merged.safetensors
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mgn.diagnostics import MgnError
from mgn.runtime.weights import load_arrays, save_params

DOWN, UP = ".lora_A.weight", ".lora_B.weight"

Arrays = Mapping[str, np.ndarray]


def merged(base: Arrays, factors: Arrays, scale: float) -> dict[str, np.ndarray]:
    """All arrays of a checkpoint, those with factors changed. MgnError for factors without a
    weight, or without the other one.
    """
    found = dict(base)
    for name in factors:
        stem = name.removesuffix(DOWN).removesuffix(UP)
        weight, down, up = f"{stem}.weight", f"{stem}{DOWN}", f"{stem}{UP}"
        if stem == name or weight not in base or not {down, up} <= set(factors):
            raise MgnError(f"'{name}' is no factor of a weight of the checkpoint")
        if name == down:
            change = factors[up].astype(np.float64) @ factors[down].astype(np.float64)
            found[weight] = (base[weight] + scale * change).astype(base[weight].dtype)
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base", type=Path, help="the checkpoint that was fine-tuned")
    parser.add_argument("factors", type=Path, help="what mgn-train --save-trained wrote")
    parser.add_argument("merged", type=Path, help="the checkpoint to write")
    parser.add_argument("--scale", type=float, default=2.0, help="SCALE of the program")
    arguments = parser.parse_args()
    try:
        factors = load_arrays(arguments.factors)
        arrays = merged(load_arrays(arguments.base), factors, arguments.scale)
        save_params(arguments.merged, arrays)
    except MgnError as error:
        sys.exit(f"error: {error}")
    print(f"{arguments.merged}: {len(factors) // 2} weights of {len(arrays)} changed")


if __name__ == "__main__":
    main()
