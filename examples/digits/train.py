"""Trains the classifier of digits.mgn with PyTorch and writes digits.safetensors.

In: train.npz and held_out.npz beside this file. Out: digits.safetensors, and the accuracy on the
held-out part. Run it with `pip install torch safetensors numpy && python train.py`; it takes about
ten seconds on two cores.
"""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent
PIXELS, WIDTH, CLASSES, HIDDEN = 64, 128, 10, 3
EPOCHS, BATCH = 120, 64


class Hidden(nn.Module):
    """A linear layer, a layer norm and a gelu; parameters are named as in digits.mgn."""

    def __init__(self, n_in: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, n_in) * (2 / n_in) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(WIDTH))
        self.gain = nn.Parameter(torch.ones(WIDTH))
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.linear(x, self.weight, self.bias)
        return functional.gelu(functional.layer_norm(y, (WIDTH,), self.gain, self.shift))


class Classifier(nn.Module):
    """The network of digits.mgn up to its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.ModuleList([Hidden(WIDTH if i else PIXELS) for i in range(HIDDEN)])
        self.output = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.hidden[0](images.float() / 16.0)
        for layer in list(self.hidden)[1:]:
            x = x + layer(x)
        return self.output(x)


def load(name: str) -> tuple[Tensor, Tensor]:
    """Images `[N, 64]` u8 and labels `[N]` of one part of the data."""
    with np.load(FOLDER / name) as arrays:
        return torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"]).long()


def shifted(images: Tensor) -> Tensor:
    """Each image moved by up to one pixel in each direction, as augmentation."""
    padded = functional.pad(images.view(-1, 8, 8), (1, 1, 1, 1))
    rows, columns = torch.randint(0, 3, (2, len(images)))
    moved = [
        padded[i, r : r + 8, c : c + 8]
        for i, (r, c) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True))
    ]
    return torch.stack(moved).view(-1, PIXELS)


def main() -> None:
    torch.manual_seed(0)
    images, labels = load("train.npz")
    model = Classifier()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            logits = model(shifted(images[batch]))
            loss = functional.cross_entropy(logits, labels[batch], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    save_file(model.state_dict(), FOLDER / "digits.safetensors")
    held_out, wanted = load("held_out.npz")
    found = model(held_out).argmax(-1) == wanted
    print(f"accuracy on {len(wanted)} held-out images: {found.float().mean():.4f}")


if __name__ == "__main__":
    main()
