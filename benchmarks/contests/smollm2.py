"""SmolLM2-135M as a PyTorch function of its weights, to stand beside `examples/smollm2.mgn`."""

from collections.abc import Mapping
from typing import Any

HEADS, KV_HEADS, HEAD, LAYERS, EPS, THETA = 9, 3, 64, 30, 1e-5, 100000.0


def forward(torch: Any, weights: Mapping[str, Any], tokens: Any) -> Any:
    """The logits of every position."""
    embed = weights["model.embed_tokens.weight"]
    x = embed[tokens]
    size = tokens.shape[-1]
    rates = THETA ** (-torch.arange(0, HEAD, 2, dtype=x.dtype, device=x.device) / HEAD)
    angles = torch.outer(torch.arange(size, dtype=x.dtype, device=x.device), rates)
    turn = (torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1))
    for layer in range(LAYERS):
        x = _block(torch, weights, f"model.layers.{layer}", x, turn)
    return _norm(torch, x, weights["model.norm.weight"]) @ embed.T


def _norm(torch: Any, x: Any, gain: Any) -> Any:
    return torch.nn.functional.rms_norm(x, gain.shape, gain, EPS)


def _rotated(torch: Any, x: Any, turn: tuple[Any, Any]) -> Any:
    low, high = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-high, low], -1) * turn[1]


def _block(torch: Any, weights: Mapping[str, Any], name: str, x: Any, turn: Any) -> Any:
    functional = torch.nn.functional

    def linear(value: Any, part: str) -> Any:
        return functional.linear(value, weights[f"{name}.{part}.weight"])

    def heads(value: Any, count: int) -> Any:
        return value.unflatten(-1, (count, HEAD)).transpose(-3, -2)

    h = _norm(torch, x, weights[f"{name}.input_layernorm.weight"])
    q = _rotated(torch, heads(linear(h, "self_attn.q_proj"), HEADS), turn)
    k = _rotated(torch, heads(linear(h, "self_attn.k_proj"), KV_HEADS), turn)
    v = heads(linear(h, "self_attn.v_proj"), KV_HEADS)
    a = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    x = x + linear(a.transpose(-3, -2).flatten(-2), "self_attn.o_proj")
    h = _norm(torch, x, weights[f"{name}.post_attention_layernorm.weight"])
    gated = functional.silu(linear(h, "mlp.gate_proj")) * linear(h, "mlp.up_proj")
    return x + linear(gated, "mlp.down_proj")
