"""Draws digits with the denoiser: from noise to images, in some steps.

In: parameters that `mgn-train` saved. Out: a picture in PNG, a row for each digit.

    python examples/denoiser/draw.py denoiser.safetensors digits.png
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import pi
from pathlib import Path

import numpy as np

import mgn
from mgn.training.run.extras import need

PROGRAM = Path(__file__).parent / "denoiser.mgn"
DIGITS = 10


def drawn(params: Path, across: int = 12, steps: int = 30, seed: int = 0) -> np.ndarray:
    """Images of 0..1, `[10, across, 8, 8]`, of noise."""
    digits = np.repeat(np.arange(DIGITS, dtype=np.int32), across)
    clear = mgn.compile(mgn.parse_file(PROGRAM), graph="clear", dims={"B": digits.size})
    clear.load_params(params)
    noise = np.random.default_rng(seed).standard_normal((digits.size, 1, 8, 8), np.float32)
    angles = np.linspace(pi / 2, 0, steps + 1, dtype=np.float32)
    return (images_of(clear, noise, digits, angles).reshape(DIGITS, across, 8, 8) + 1) / 2


def images_of(
    clear: Callable[..., Mapping[str, np.ndarray]],
    mix: np.ndarray,
    digits: np.ndarray,
    angles: np.ndarray,
) -> np.ndarray:
    """What the steps from each angle to the next one make of noise."""
    for angle, following in pairwise(angles):
        mix = clear(mix=mix, digits=digits, angle=angle, next=following)["mix"]
    return mix


def save_picture(images: np.ndarray, path: Path) -> None:
    """Writes all images side by side, with a pixel between them, as a PNG (extra: curves)."""
    imsave = need("matplotlib.image", "curves", "a picture").imsave
    framed = np.pad(images, [(0, 0), (0, 0), (0, 1), (0, 1)])
    rows, across, height, width = framed.shape
    sheet = framed.transpose(0, 2, 1, 3).reshape(rows * height, across * width)
    imsave(path, np.kron(sheet, np.ones((4, 4))), cmap="gray_r", vmin=0, vmax=1)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("params", type=Path, help="what mgn-train --save-params wrote")
    parser.add_argument("picture", type=Path, help="the PNG to write")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--across", type=int, default=12, help="how many of each digit")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        images = drawn(arguments.params, arguments.across, arguments.steps, arguments.seed)
        save_picture(images, arguments.picture)
    except mgn.MgnError as error:
        sys.exit(f"error: {error}")
    print(f"{arguments.picture}: {arguments.across} of each digit")


if __name__ == "__main__":
    main()
