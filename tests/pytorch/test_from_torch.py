"""Modules of PyTorch as programs: names, values, results, errors."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.frontend.torch import exported
from tests.pytorch.nearness import check_near

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


class Tied(nn.Module):
    """Two layers that share a weight, a buffer, and a table that the state_dict leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.full((8,), 2.0))
        self.register_buffer("table", torch.arange(8.0), persistent=False)

    def forward(self, x):
        """Results by name."""
        y = self.second(F.gelu(self.first(x))) * self.scale + self.table
        return {"logits": y, "both": (y.argmax(-1), x)}


class Block(nn.Module):
    """Attention with a mask, a norm and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.qkv = nn.Linear(24, 72)
        self.out = nn.Linear(24, 24)

    def forward(self, x, mask):
        """`x[B, S, 24]`, and truths `[B, 1, 1, S]`."""
        samples, steps, _ = x.shape
        parts = self.qkv(self.norm(x)).view(samples, steps, 3, 3, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts.unbind(0), attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(samples, steps, 24))


def convolutional() -> nn.Module:
    """Convolutions with batch norm, pooling, resizing and a classifier."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Hardswish(),
        nn.MaxPool2d(3, 2, 1),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.GroupNorm(2, 8),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.LogSoftmax(-1),
    )


def check_module(module: nn.Module, *inputs: "torch.Tensor") -> dict[str, np.ndarray]:
    """What mgn computes of a module, compared with PyTorch."""
    module = module.eval()
    program = mgn.from_torch(module, inputs)
    graph = next(op for op in program.lower().body.block.ops if op.name == "mgn.graph")
    exe = mgn.compile(program)
    found = exe(**dict(zip(graph.input_names, [item.numpy() for item in inputs], strict=True)))
    wide = copy.deepcopy(module).double()
    doubled = [item.double() if item.is_floating_point() else item for item in inputs]
    with torch.no_grad():
        eager, exact = (
            torch.utils._pytree.tree_leaves(item) for item in (module(*inputs), wide(*doubled))
        )
    for (name, value), one, other in zip(found.items(), eager, exact, strict=True):
        check_near(value, one.numpy(), other.numpy(), name)
    return found


def test_parameters_have_the_names_and_values_of_the_state_dict_and_tied_ones_are_one() -> None:
    torch.manual_seed(0)
    module = Tied()
    program = mgn.from_torch(module, (torch.randn(3, 8),))
    names = {"first.weight", "first.bias", "second.bias", "scale"}
    assert program.values.keys() == names
    state = module.state_dict()
    for name, value in mgn.compile(program).params.items():
        np.testing.assert_array_equal(value, state[name].numpy())


def test_results_have_their_keys_and_agree_with_pytorch() -> None:
    torch.manual_seed(0)
    found = check_module(Tied(), torch.randn(3, 8))
    assert list(found) == ["logits", "both_0", "both_1"]


def test_convolutions_norms_and_pooling_agree_with_pytorch() -> None:
    torch.manual_seed(0)
    module = convolutional()
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_var.uniform_(0.5, 2)
    assert list(check_module(module, torch.randn(2, 3, 17, 15))) == ["output"]


def test_attention_is_kept_and_agrees_with_pytorch() -> None:
    torch.manual_seed(0)
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    mask[0, ..., 5:] = False
    module, x = Block(), torch.randn(2, 7, 24)
    text = str(mgn.from_torch(module, (x, mask)))
    assert text.count("mgn.attention(") == 1 and text.count("mgn.layer_norm(") == 1
    check_module(module, x, mask)


def test_values_keep_the_names_and_the_lines_of_the_program() -> None:
    program = mgn.from_torch(Tied(), (torch.randn(3, 8),))
    assert "%gelu = mgn.gelu(%linear)" in str(program)
    graph = next(op for op in program.lower().body.block.ops if op.name == "mgn.graph")
    gelu = next(op for op in graph.walk() if op.name == "mgn.gelu")
    assert Path(gelu.location.filename.data).name in (Path(__file__).name, "functional.py")
    assert gelu.location.line.data > 0


def test_weights_can_be_loaded_under_the_names_of_the_state_dict(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    module = nn.Sequential(nn.Linear(4, 3))
    exe = mgn.compile(mgn.from_torch(module, (torch.randn(2, 4),)))
    other = {"0.weight": np.ones((3, 4), np.float32), "0.bias": np.ones(3, np.float32)}
    save_file(other, tmp_path / "w.safetensors")
    exe.load_params(tmp_path / "w.safetensors")
    np.testing.assert_array_equal(exe.params["0.weight"], other["0.weight"])


class Measured(nn.Module):
    """A network with a batch norm and a frozen layer, and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.last = nn.Linear(5, 3)
        self.last.bias.requires_grad = False

    def forward(self, x, labels):
        """The loss of rows and their classes."""
        return {"loss": F.cross_entropy(self.last(self.norm(F.relu(self.first(x)))), labels)}


@pytest.mark.parametrize("way", ["Trainer", "compile"])
def test_a_module_is_trained_from_its_values_as_pytorch_trains_it(way: str) -> None:
    """Running statistics are buffers, and a bias has no `requires_grad`: neither moves."""
    torch.manual_seed(3)
    net = Measured().eval()
    net.norm.running_var.fill_(2.5)
    x, labels = torch.randn(4, 6), torch.tensor([0, 2, 1, 1])
    module = mgn.from_torch(net, (x, labels))
    rule = mgn.SGD(0.2, momentum=0.9)
    if way == "Trainer":
        trainer = mgn.Trainer(module, optimizer=rule)
        assert trainer.trained == tuple(n for n, p in net.named_parameters() if p.requires_grad)
        params, step = trainer.params, trainer.step
    else:
        made = mgn.compile(module, mode="training", optimizer=rule)
        params, step = made.params, made.run
    theirs = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9)
    for _ in range(8):
        theirs.zero_grad()
        loss = net(x, labels)["loss"]
        loss.backward()
        theirs.step()
        found = step({"x": x.numpy(), "labels": labels.numpy()})["loss"]
        np.testing.assert_allclose(found, loss.item(), rtol=1e-5, atol=1e-6)
    for name, value in net.state_dict().items():
        if name in params:
            np.testing.assert_allclose(params[name], value.numpy(), rtol=1e-4, atol=1e-5)
    assert "norm.running_var" in params


def test_a_buffer_is_trained_where_that_is_asked_for() -> None:
    module = mgn.from_torch(Measured().eval(), (torch.randn(4, 6), torch.tensor([0, 2, 1, 1])))
    trainer = mgn.Trainer(module, trained="running_mean|bias")
    assert set(trainer.trained) == {"first.bias", "norm.bias", "last.bias", "norm.running_mean"}


def test_half_precision_and_integers_come_as_they_are() -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 4, dtype=torch.bfloat16)

        def forward(self, ids):
            return self.table(ids) * 2, ids + 1

    module, ids = Lookup(), torch.tensor([[1, 4, 0]])
    exe = mgn.compile(mgn.from_torch(module, (ids,)))
    found = exe(ids=ids.numpy())
    assert found["output_0"].dtype.name == "bfloat16" and found["output_1"].dtype == np.int64
    expected = module(ids)[0].detach().float().numpy()
    np.testing.assert_array_equal(found["output_0"].astype(np.float32), expected)


def test_a_tensor_in_bf16_is_an_input_and_a_parameter() -> None:
    exe = mgn.compile(mgn.parse("graph g(x: bf16[3]) {\n param w: bf16[3]\n return y = x + w\n}"))
    x, w = (torch.tensor(row, dtype=torch.bfloat16) for row in ([1.5, -0.0, 3e38], [2, 0, np.nan]))
    exe.params["w"] = w
    found = exe(x=x)["y"]
    assert found.dtype.name == "bfloat16"
    np.testing.assert_array_equal(found.astype(np.float32), (x + w).float().numpy())
    with pytest.raises(mgn.MgnError, match="requires grad"):
        exe(x=x.requires_grad_())


def test_every_operator_that_is_not_there_is_named_with_its_line() -> None:
    class Strange(nn.Module):
        def forward(self, x):
            return torch.lgamma(torch.erfinv(x))

    with pytest.raises(mgn.DiagnosticsError) as caught:
        mgn.from_torch(Strange(), (torch.rand(3),))
    said = str(caught.value)
    assert "'aten.erfinv.default'" in said and "'aten.lgamma.default'" in said
    assert Path(__file__).name in said and "return torch.lgamma" in said


def test_a_module_that_changes_its_buffers_is_refused() -> None:
    with pytest.raises(mgn.MgnError, match=r"running_mean.*eval"):
        mgn.from_torch(nn.BatchNorm1d(3), (torch.rand(4, 3),))


class Plain(torch.nn.Module):
    """A module of one function."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.add_(1), "changes its input '.*' when it runs; it takes a copy first"),
        (lambda x: x * x.max().item(), "'mul' is not supported: a number that is known only when"),
        (lambda x: x * 2 if x.sum() > 0 else x, "torch.export cannot capture the module: Guard"),
        (lambda x: x @ x, "torch.export cannot capture the module: RuntimeError: a and b must"),
        (lambda x: 3, "the module gives no tensor"),
        (lambda x: torch.linalg.qr(x)[0], r"is not supported: .*torch\.compile.* leaves it to"),
    ],
)
def test_what_cannot_be_captured_is_an_error_that_says_why(function, message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        mgn.from_torch(Plain(function), (torch.randn(2, 3),))


def test_what_pytorch_asserts_of_values_is_left_out() -> None:
    ids = torch.tensor([[2, 0, 1], [1, 1, 2]])
    module = mgn.from_torch(Plain(lambda x: F.one_hot(x, 4).float() * 0.5), (ids,))
    found = mgn.compile(module)(x=ids.numpy())["output"]
    np.testing.assert_array_equal(found, F.one_hot(ids, 4) * 0.5)


def test_results_that_are_no_tensors_are_left_out() -> None:
    module = mgn.from_torch(Plain(lambda x: (x + 1, 3, None)), (torch.randn(2, 3),))
    assert [*mgn.compile(module).outputs] == ["output_0"]


def test_sizes_that_an_exported_program_leaves_open_are_refused_and_fixed_ones_taken() -> None:
    module, x = nn.Linear(4, 3), torch.randn(2, 4)
    fixed = torch.export.export(module, (x,))
    assert mgn.from_torch(fixed).values.keys() == {"weight", "bias"}
    rows = torch.export.Dim("rows", min=2, max=64)
    open_ended = torch.export.export(module, (x,), dynamic_shapes=({0: rows},))
    with pytest.raises(mgn.DiagnosticsError, match="'input' is not supported: sizes that are not"):
        mgn.from_torch(open_ended)


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(mgn.DiagnosticsError, match="values of type complex64"):
        mgn.from_torch(nn.Identity(), (torch.zeros(3, dtype=torch.complex64),))


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(mgn.MgnError, match=r"torch.nn.Module, not function"):
        mgn.from_torch(lambda x: x, (torch.rand(3),))
    with pytest.raises(mgn.MgnError, match="as a tuple"):
        mgn.from_torch(nn.ReLU(), torch.rand(3))


def test_without_pytorch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(mgn.MgnError, match=r"mgn-compiler\[torch\]"):
        exported.export_module(None, ())


@pytest.mark.parametrize("function", [torch.sinh, torch.cosh])
def test_hyperbolic_functions_are_finite_where_their_values_are(function: Any) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    x = torch.tensor([0.0, 1e-6, 1.0, 19.9, -20.1, 89.0, -89.0, 800.0, torch.inf, torch.nan])
    found = mgn.compile(mgn.from_torch(Net(), (x,)))(x=x.numpy())["output"]
    assert np.allclose(found, function(x.double()).float(), rtol=1e-5, atol=0, equal_nan=True)
