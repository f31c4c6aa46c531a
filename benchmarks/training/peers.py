"""The networks that are trained beside mgn's, in PyTorch, where no library has them.

In: sizes. Out: modules whose parameters have the names of mgn's programs.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class _Block(nn.Module):
    """A block of the character GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, rows, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, -1)
        q, k, v = [item.view(batch, rows, self.heads, -1).transpose(1, 2) for item in parts]
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).reshape(batch, rows, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class CharacterGpt(nn.Module):
    """`examples/character_gpt/character_gpt.mgn`; the logits of all tokens."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, characters: int, width: int, heads: int, layers: int, rows: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        half = width // heads // 2
        rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.outer(torch.arange(rows, dtype=torch.float64), rates)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.characters(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.norm(x) @ self.characters.weight.T


def next_token_loss(logits: torch.Tensor, tokens: torch.Tensor) -> Any:
    """The mean cross entropy of each token's logits with what follows it."""
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
