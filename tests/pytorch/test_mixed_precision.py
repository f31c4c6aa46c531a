"""`torch.compile(…, backend="mgn")` where values are in bf16 beside others in f32."""

import copy
import warnings

import pytest

from mgn.diagnostics import MgnWarning

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from mgn.torch import backend  # noqa: E402
from tests.pytorch.fresh_start import fresh  # noqa: E402, F401

nn = torch.nn

NORMS = {
    "layer": lambda: nn.LayerNorm(16),
    "group": lambda: nn.Sequential(nn.Unflatten(1, (16, 1)), nn.GroupNorm(4, 16), nn.Flatten()),
    "batch": lambda: nn.BatchNorm1d(16),
    "rms": lambda: nn.RMSNorm(16, eps=1e-5),
}


def gradients(function, model, x, *, autocast):
    """A function's result, and the gradients of a model's parameters."""
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = function(x.to(next(model.parameters()).dtype))
    (found.to(torch.float64) * torch.arange(4)).sum().backward()
    return [found.detach().double(), *(item.grad.double() for item in model.parameters())]


@pytest.mark.parametrize("norm", NORMS)
def test_norms_under_autocast_are_kernels_and_as_near_as_those_of_pytorch(norm: str) -> None:
    model = nn.Sequential(nn.Linear(8, 16), NORMS[norm](), nn.Tanh(), nn.Linear(16, 4))
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    x = torch.randn(12, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MgnWarning)
        compiled = torch.compile(model, backend="mgn")
        found = gradients(compiled, model, x, autocast=True)
    assert [len(item.parts) for item in backend.built] == [1, 1]
    own, true = (gradients(item, item, x, autocast=item is eager) for item in (eager, exact))
    for mine, theirs, right in zip(found, own, true, strict=True):
        size = right.abs().max()
        bound = max(4 * (theirs - right).abs().max(), 4 * 2.0**-9 * size)
        assert (mine - right).abs().max() <= bound


def test_a_tensor_of_another_type_than_was_traced_is_converted() -> None:
    """PyTorch computes a norm here, and its statistics have another type than its trace says."""
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4))
    compiled = torch.compile(model, backend="mgn")
    with torch.autocast("cpu", torch.bfloat16):
        compiled(torch.randn(3, 8))
    (part,) = backend.built[0].parts
    tensors = [torch.zeros(node.meta["val"].shape) for node in part.needed]
    assert all(torch.isfinite(item).all() for item in part(tensors))


def test_an_optimiser_that_is_compiled_is_kernels_alone() -> None:
    model = nn.Linear(8, 4)
    plain = copy.deepcopy(model)
    for item in (model, plain):
        item.weight.grad, item.bias.grad = torch.ones(4, 8), torch.ones(4)
    optimisers = [torch.optim.AdamW(item.parameters(), lr=0.1) for item in (model, plain)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", MgnWarning)
        torch.compile(optimisers[0].step, backend="mgn")()
    optimisers[1].step()
    torch.testing.assert_close(model.weight, plain.weight)
    torch.testing.assert_close(model.bias, plain.bias)
