"""`torch.compile(…, backend="mgn")`: results, gradients, what PyTorch computes, sizes."""

import copy
import importlib.metadata
import subprocess
import sys
import tomllib
import warnings

import numpy as np
import pytest

import mgn
from mgn.diagnostics import MgnWarning
from tests.conftest import ROOT
from tests.pytorch.nearness import check_near

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

import mgn.torch  # noqa: E402
from mgn.torch import backend, parts  # noqa: E402
from tests.pytorch.fresh_start import fresh  # noqa: E402, F401

nn, F = torch.nn, torch.nn.functional


class Classifier(nn.Module):
    """Convolution, batch norm, pooling, a hidden layer with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.hidden = nn.Linear(8 * 9, 16)
        self.scale = nn.LayerNorm(16)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        """Logits of `x[N, 3, 6, 6]`."""
        x = F.max_pool2d(F.relu(self.norm(self.convolution(x))), 2)
        return self.last(self.drop(self.scale(F.gelu(self.hidden(x.flatten(1))))))


class Attention(nn.Module):
    """Causal attention between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(24, 72)
        self.out = nn.Linear(24, 24)

    def forward(self, x):
        """`x[B, S, 24]`."""
        samples, steps, _ = x.shape
        q, k, v = self.qkv(x).view(samples, steps, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(samples, steps, 24))


def kernels() -> list[int]:
    """How many kernels each part has that was built."""
    return [len(part.executable.report.kernels) for item in backend.built for part in item.parts]


def train(model, x, double=False):
    """A model's result, and its gradients by name, for the sum of squares of the result."""
    torch.manual_seed(5)
    y = model(x.double() if double else x)
    (y * y).sum().backward()
    gradients = {name: item.grad.numpy() for name, item in model.named_parameters()}
    return y.detach().numpy(), gradients


def check_training(model, x) -> None:
    """A model's result, gradients and buffers, compared with eager ones in f32 and in f64."""
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    found, gradients = train(torch.compile(model, backend="mgn"), x)
    gradients = {name.removeprefix("_orig_mod."): item for name, item in gradients.items()}
    own, own_gradients = train(eager, x)
    true, true_gradients = train(exact, x, double=True)
    check_near(found, own, true, "result")
    for name, value in gradients.items():
        check_near(value, own_gradients[name], true_gradients[name], name)
    for (name, one), (_, two) in zip(model.named_buffers(), eager.named_buffers(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6, err_msg=name)


def test_inference_is_one_graph_and_agrees_with_pytorch() -> None:
    model, x = Classifier().eval(), torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        found = torch.compile(model, backend="mgn")(x)
        exact = copy.deepcopy(model).double()(x.double())
        check_near(found.numpy(), model(x).numpy(), exact.numpy())
    assert [len(item.parts) for item in backend.built] == [1]


def test_training_is_two_graphs_and_gradients_agree_with_pytorch() -> None:
    model = Classifier()
    model.drop.p = 0.0
    check_training(model, torch.randn(4, 3, 6, 6))
    assert [len(item.parts) for item in backend.built] == [1, 1]


def test_gradients_flow_through_attention() -> None:
    check_training(Attention(), torch.randn(2, 7, 24))


LAYERS = {
    "an activation in place": lambda: nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)
    ),
    "a weight with a norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_gradients_of_a_layer_are_left_to_mgn_whole(make) -> None:
    check_training(make(), torch.randn(2, 3, 4))
    assert backend.built and not any(made for item in backend.built for made, _ in item.steps)


class Scaled(nn.Module):
    """x times a weight with norms over all axes but one, as it lies in memory or turned."""

    def __init__(self, shape: tuple[int, ...], dim: int, is_turned: bool = False) -> None:
        super().__init__()
        lies = shape[::-1] if is_turned else shape
        self.v = nn.Parameter(torch.randn(lies))
        scales = [size if axis == dim else 1 for axis, size in enumerate(shape)]
        self.g = nn.Parameter(torch.rand(scales) + 0.5)
        self.dim, self.is_turned = dim, is_turned

    def forward(self, x):
        """`x[*shape]`."""
        v = self.v.transpose(0, -1) if self.is_turned else self.v
        return x * torch._weight_norm(v, self.g, self.dim)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim"), [((5,), 0), ((1,), 0), ((7, 3), 0), ((7, 3), 1), ((4, 3, 5), 2)]
)
def test_weights_with_norms_and_their_gradients_are_mgns(
    shape: tuple[int, ...], dim: int, is_turned: bool
) -> None:
    model, x = Scaled(shape, dim, is_turned), torch.randn(shape)
    check_training(model, x)
    assert not any(made for item in backend.built for made, _ in item.steps)
    wanted = copy.deepcopy(model).double()(x.double()).detach().numpy()
    found = mgn.compile(mgn.from_torch(model, (x,)))(x=x.numpy())["output"]
    check_near(np.asarray(found), model(x).detach().numpy(), wanted)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_whose_heads_share_keys_is_left_to_mgn_whole(is_causal: bool) -> None:
    class Grouped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.kv = torch.nn.Linear(24, 24), torch.nn.Linear(24, 16)

        def forward(self, x):
            samples, steps, _ = x.shape
            q = self.q(x).view(samples, steps, 6, 4).transpose(1, 2)
            k, v = self.kv(x).view(samples, steps, 2, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)

    check_training(Grouped(), torch.randn(2, 7, 24))
    assert [len(item.parts) for item in backend.built] == [1, 1]


def test_dropout_draws_the_numbers_of_pytorch() -> None:
    model, x = Classifier(), torch.randn(4, 3, 6, 6)
    eager = copy.deepcopy(model)
    found, _ = train(torch.compile(model, backend="mgn"), x)
    expected, _ = train(eager, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert [len(item.parts) for item in backend.built] == [1, 1]


def test_a_training_step_changes_what_the_next_call_computes() -> None:
    model, x = Attention(), torch.randn(2, 7, 24)
    compiled = torch.compile(model, backend="mgn")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = (compiled(x) ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
    assert len(backend.built) == 2


def test_what_mgn_does_not_have_is_computed_by_pytorch_and_named_once() -> None:
    def strange(x):
        return torch.erfinv(torch.tanh(x)) + torch.lgamma(x.exp() + 1)

    x = torch.randn(3, 5)
    with pytest.warns(MgnWarning) as caught:
        found = torch.compile(strange, backend="mgn")(x)
    own = [item for item in caught if item.category is MgnWarning]
    assert len(own) == 1
    said = str(own[0].message)
    assert "aten.erfinv.default (no such operator; " in said and "aten.lgamma.default" in said
    assert "test_backend.py:" in said
    torch.testing.assert_close(found, strange(x))
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", MgnWarning)
        torch.compile(strange, backend="mgn")(x)


def test_a_break_of_the_graph_leaves_two_graphs() -> None:
    def broken(x):
        y = x * 2 + 1
        torch._dynamo.graph_break()
        return y.exp()

    x = torch.randn(3, 5)
    torch.testing.assert_close(torch.compile(broken, backend="mgn")(x), broken(x))
    assert len(backend.built) == 2


def test_dynamic_sizes_are_compiled_one_by_one_up_to_a_bound() -> None:
    layer = nn.Linear(4, 4)

    def scaled(x):
        return layer(x).softmax(-1).view(x.shape[0], 2, 2) * x.shape[0]

    compiled = torch.compile(scaled, backend="mgn", dynamic=True, options={"sizes": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error", MgnWarning)
        for rows in (3, 5, 3):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), scaled(x))
    assert len(backend.built) == 2
    with pytest.warns(MgnWarning, match="for 2 sizes"):
        torch.testing.assert_close(compiled(x[:2]), scaled(x[:2]))
    assert len(backend.built) == 2


def test_gradients_flow_through_dynamic_sizes() -> None:
    layer = nn.Linear(4, 4)
    compiled = torch.compile(layer, backend="mgn", dynamic=True)
    x = torch.randn(3, 4, requires_grad=True)
    compiled(x).sum().backward()
    expected = layer.weight.sum(0).expand(3, 4)
    torch.testing.assert_close(x.grad, expected)


def test_frozen_parameters_stay_on_the_device_and_a_change_in_place_is_seen() -> None:
    model, x = Classifier().eval(), torch.randn(2, 3, 6, 6)
    compiled = torch.compile(model, backend="mgn", options={"freeze": True})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        part = backend.built[0].parts[0]
        assert len(part.executable.params) >= 8
        model.last.weight.mul_(3)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(backend.built) == 1


def test_a_frozen_parameter_that_is_replaced_is_seen() -> None:
    model, x = nn.Linear(64, 4), torch.randn(2, 64)
    compiled = torch.compile(model, backend="mgn", options={"freeze": True})
    with torch.no_grad():
        for _ in range(4):
            model.load_state_dict({"weight": torch.randn(4, 64), "bias": torch.randn(4)},
                                  assign=True)  # fmt: skip
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_complex_numbers_are_left_to_pytorch() -> None:
    def turned(x):
        return (torch.view_as_complex(x) * 1j).abs().exp()

    x = torch.randn(5, 2)
    with pytest.warns(MgnWarning, match="complex64"):
        torch.testing.assert_close(torch.compile(turned, backend="mgn")(x), turned(x))


def test_results_lie_in_memory_as_pytorch_has_them() -> None:
    def moved(x):
        y = x + 1
        return y.transpose(0, 1), y.sum(0, keepdim=True).expand(3, 5, 2), y.unfold(1, 3, 1).mul(2)

    x = torch.randn(3, 5, 2)
    for found, expected in zip(torch.compile(moved, backend="mgn")(x), moved(x), strict=True):
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


def test_tensors_with_their_axes_in_another_order_are_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a backward pass needs turned, an input with channels last, and a result that is turned:
    the kernels read and write their order. Such a result may be changed in place.
    """
    lying: list[bool] = []

    def array(tensor):
        lying.append(tensor.is_contiguous())
        return array_of_tensor(tensor)

    array_of_tensor = parts.array_of_tensor
    monkeypatch.setattr(parts, "array_of_tensor", array)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    x = torch.randn(2, 4, 6, 5).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)

    def turned(network, x):
        return network((2 * x).permute(0, 2, 3, 1)).permute(3, 0, 2, 1)

    fast, plain = x.clone().requires_grad_(), x.clone().requires_grad_()
    found = torch.compile(turned, backend="mgn")(model, fast)
    expected = turned(other := copy.deepcopy(model), plain)
    assert found.stride() == expected.stride()
    (weights := torch.randn_like(expected)).mul_(0.5)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(fast.grad, plain.grad)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert lying and all(lying)
    orders = [lie.order for running in backend.built for part in running.parts
              for _, lie in part._results if lie]  # fmt: skip
    assert orders and all(orders)
    found.add_(1.0)
    torch.testing.assert_close(found.detach(), expected.detach() + 1.0)


def test_views_and_changes_in_place_are_those_of_pytorch() -> None:
    def changed(x):
        x.add_(1)
        return x.view(-1), x[1:]

    x, y = torch.randn(3, 5), None
    y = x.clone()
    flat, rest = torch.compile(changed, backend="mgn")(x)
    changed(y)
    torch.testing.assert_close(x, y)
    x.zero_()
    assert not flat.any() and not rest.any()


def test_half_precision_and_integers_pass() -> None:
    def mixed(x, ids):
        return (x * 2).to(torch.float32) + ids, ids[ids.argmax()]

    x, ids = torch.randn(5).to(torch.bfloat16), torch.tensor([3, 1, 4, 1, 5])
    for found, expected in zip(torch.compile(mixed, backend="mgn")(x, ids), mixed(x, ids),
                               strict=True):  # fmt: skip
        torch.testing.assert_close(found, expected)


def test_an_unknown_option_is_an_error_that_lists_them() -> None:
    with pytest.raises(Exception, match="no option 'speed'; it has device, precision"):
        torch.compile(nn.ReLU(), backend="mgn", options={"speed": 9})(torch.ones(2))
    with pytest.raises(Exception, match="no mode 'max-autotune'"):
        backend.compile_graph(None, [], mode="max-autotune")
    with pytest.raises(mgn.MgnError, match="'sizes' is of type int"):
        backend.compile_graph(None, [], options={"sizes": "many"})


def test_the_entry_point_names_the_backend() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    value = project["entry-points"]["torch_dynamo_backends"]["mgn"]
    point = importlib.metadata.EntryPoint("mgn", value, "torch_dynamo_backends")
    assert point.load() is backend.compile_graph


LOOKED_UP = """
import importlib.metadata as metadata, sys
points = metadata.EntryPoints([metadata.EntryPoint("mgn", sys.argv[1], "torch_dynamo_backends")])
metadata.entry_points = points.select
exec(sys.argv[2])
from torch._dynamo.backends.registry import lookup_backend
found = [lookup_backend("mgn") for _ in range(2)]
import mgn.torch.backend
assert found == [mgn.torch.backend.compile_graph] * 2
"""


@pytest.mark.parametrize("before", ["", "import mgn", "import mgn.torch"])
def test_a_new_process_finds_the_backend_of_the_installed_package(before: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    value = project["entry-points"]["torch_dynamo_backends"]["mgn"]
    command = [sys.executable, "-c", LOOKED_UP, value, before]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
