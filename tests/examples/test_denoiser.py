"""The denoiser learns from the digits, and its steps lead from noise to images."""

from math import pi
from pathlib import Path

import numpy as np
import pytest

import mgn
from examples.denoiser.draw import images_of, save_picture
from mgn.runtime.weights import load_arrays
from tests.conftest import ROOT
from tests.examples.interpreted import Runs, Steps

PROGRAM = ROOT / "examples" / "denoiser" / "denoiser.mgn"
DIGITS = ROOT / "examples" / "digits" / "train.npz"
SIZES = {"WIDTH": 4, "TOLD": 8, "GROUPS": 2}


def test_it_learns_to_tell_image_from_noise() -> None:
    images = load_arrays(DIGITS)
    steps = Steps(mgn.parse_file(PROGRAM), "train", mgn.AdamW(0.03), SIZES | {"B": 8})
    losses: list[float] = []
    for index in range(0, 14 * 8, 8):
        part = slice(index, index + 8)
        losses.append(steps.step(images=images["images"][part], labels=images["labels"][part]))
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:2])


def test_steps_lead_from_noise_to_an_image_that_is_told_apart_from_it() -> None:
    program, dice = mgn.parse_file(PROGRAM), np.random.default_rng(0)
    params = Steps(program, "train", mgn.SGD(), SIZES | {"B": 2}).params
    runs = Runs(program, SIZES | {"B": 2}, params)
    mix = dice.standard_normal((2, 1, 8, 8)).astype(np.float32)
    angles = np.linspace(pi / 2, 0, 5, dtype=np.float32)
    found = images_of(lambda **inputs: runs("clear", **inputs), mix, np.int32([3, 8]), angles)
    assert found.shape == (2, 1, 8, 8)
    assert np.abs(found).max() <= 1.0
    for name in params:
        params[name] = params[name] * (0.0 if name.startswith("last") else 1.0)
    # a network that gives nothing says that the mix is cos(a) of the image and sin(a) of the noise
    once = runs("clear", mix=mix, digits=np.int32([3, 8]), angle=angles[1], next=angles[2])
    image = np.clip(np.cos(angles[1]) * mix, -1, 1)
    noise = (mix - np.cos(angles[1]) * image) / np.sin(angles[1])
    wanted = np.cos(angles[2]) * image + np.sin(angles[2]) * noise
    np.testing.assert_allclose(once["mix"], wanted, rtol=1e-5, atol=1e-6)


def test_a_picture_has_all_images_side_by_side(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    images = np.zeros((10, 3, 8, 8))
    images[9, 2] = 1.0
    save_picture(images, tmp_path / "a.png")
    found = image.imread(tmp_path / "a.png")[..., 0]
    assert found.shape == (360, 108)
    assert found[-36:-4, -36:-4].max() == 0.0
    assert found[:-36].min() == 1.0
