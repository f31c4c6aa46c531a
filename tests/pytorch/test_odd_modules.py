"""`torch.compile(…, backend="mgn")` of functions that nobody writes first: results that lie in one
memory, tensors of other classes, numbers that change, reductions of nothing.
"""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from mgn.diagnostics import MgnWarning

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from mgn.torch import backend  # noqa: E402
from tests.pytorch.fresh_start import fresh  # noqa: E402, F401


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function by mgn."""
    return torch.compile(function, backend="mgn", **options)


def told(function: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a function gives, and mgn's warnings meanwhile."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function()
    return result, [str(item.message) for item in found if item.category is MgnWarning]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "a value and views": lambda y: (y, y.view(-1), y[1], y.t()),
    "views alone": lambda y: (y[:, 1:], y[1:]),
    "pieces": lambda y: y.split(2, dim=1),
    "a view of a view": lambda y: (y.t()[1:].unsqueeze(0), y.t()),
    "views that are used, too": lambda y: (y.t() @ y, y.t(), y),
}


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS)
def test_a_write_to_a_result_is_seen_in_those_that_lie_in_its_memory(
    views: Callable[[Any], Any], with_gradient: bool
) -> None:
    def function(x: Any, w: Any) -> Any:
        return (*views(x * w + 1), x * 3)

    x, w = torch.randn(4, 6), torch.randn(4, 6, requires_grad=with_gradient)
    wanted = [item.detach() for item in function(x, w)]
    found = [item.detach() for item in compiled(function)(x, w)]
    for number in range(len(wanted)):
        for results in (wanted, found):
            results[number].mul_(2)
        for one, other in zip(found, wanted, strict=True):
            assert one.stride() == other.stride()
            torch.testing.assert_close(one, other)


def test_of_results_in_one_memory_mgn_computes_the_value() -> None:
    _, said = told(lambda: compiled(lambda x: ((y := x.sin() + 1), y.t()))(torch.randn(3, 4)))
    assert not said
    assert [len(item.parts) for item in backend.built] == [1]
    assert len(backend.built[0].parts[0].executable.report.kernels) == 1


class Named(torch.Tensor):
    """A class without rules of its own."""


def test_tensors_of_a_class_of_their_own_are_left_to_pytorch_and_a_warning_says_so() -> None:
    x = torch.randn(3).as_subclass(Named)
    found, said = told(lambda: compiled(lambda x: x + 1)(x))
    assert type(found) is Named
    assert torch.equal(found, x + 1)
    assert said == ["PyTorch runs a graph that has a tensor of class Named"]


def test_tensors_of_several_lengths_in_one_are_left_to_pytorch() -> None:
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    found, said = told(lambda: compiled(lambda n: n * 2)(nested))
    for one, other in zip(found.unbind(), parts, strict=True):
        assert torch.equal(one, other * 2)
    assert said == ["PyTorch runs a graph that has a tensor of class NestedTensor"]


def test_a_tensor_whose_data_is_set_is_left_to_pytorch() -> None:
    def function(x: Any) -> Any:
        x.data = x.data * 2
        return x + 1

    x = torch.randn(3)
    own = x.clone()
    found, said = told(lambda: compiled(function)(x))
    assert torch.equal(found, function(own))
    assert torch.equal(x, own)
    assert said == ["PyTorch runs a graph that has a tensor whose `.data` is set"]


def test_a_number_that_changes_is_an_operand_and_no_reason_to_compile_again() -> None:
    function = compiled(lambda x, s: (x * s + 1).sin() * (s * 2), dynamic=True)
    x = torch.randn(5)
    for number in (0.5, 1.25, -3.5, 1e-3, 7.75):
        torch.testing.assert_close(function(x, number), (x * number + 1).sin() * (number * 2))
    assert len(backend.built) == 1


NUMBERS: dict[str, Callable[[], Any]] = {
    "a norm over elements": lambda: torch.nn.LayerNorm(4),
    "a norm over a batch": lambda: torch.nn.BatchNorm1d(4),
    "a norm over groups": lambda: torch.nn.GroupNorm(2, 4),
    "a dropout that keeps all": lambda: torch.nn.Dropout(0.3).eval(),
    "a slope": lambda: torch.nn.LeakyReLU(0.1),
    "a limit and its negative": lambda: Limited(),
    "a power": lambda: torch.nn.LocalResponseNorm(2),
    "a scale of sizes": lambda: torch.nn.Upsample(scale_factor=2.0),
}


class Limited(torch.nn.Module):
    """Values between a number and its negative."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 0.37

    def forward(self, x: Any) -> Any:
        return x.clamp(-self.limit, self.limit)


@pytest.mark.parametrize("make", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_a_module_are_known_where_sizes_are_dynamic(make: Callable[[], Any]) -> None:
    net = make().double()
    peer = copy.deepcopy(net)
    function = compiled(net, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4, 6, dtype=torch.float64)
        if isinstance(net, torch.nn.LayerNorm):
            x = x.mT.contiguous()
        found, said = told(lambda x=x: function(x))
        torch.testing.assert_close(found, peer(x), rtol=1e-10, atol=1e-12)
        assert said == []


def test_a_number_that_is_known_and_changes_is_compiled_for_each_value() -> None:
    function = compiled(lambda x, slope: torch.nn.functional.leaky_relu(x, slope), dynamic=True)
    x = torch.randn(5, 3)
    for slope in (0.1, 0.25, -0.5, 0.1):
        wanted = torch.nn.functional.leaky_relu(x, slope)
        torch.testing.assert_close(function(x, slope), wanted)
    assert len(backend.built) == 3


def test_operators_of_higher_order_get_their_arguments_as_they_were_written() -> None:
    flex_attention = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    q = torch.randn(1, 2, 8, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted, found = flex_attention(q, q, q), compiled(lambda q: flex_attention(q, q, q))(q)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3)])
@pytest.mark.parametrize(
    "reduce",
    [
        *(lambda x: x.amax(0), lambda x: x.amin(-1), lambda x: x.argmax(), lambda x: x.max()),
        *(lambda x: (x > 0).any(), lambda x: (x > 0).all(-1), lambda x: (x == x).any(0)),
        *(lambda x: x.sum(0), lambda x: x.prod(-1), lambda x: x.mean(), lambda x: x.var(0)),
        *(lambda x: x.logsumexp(0), lambda x: x.softmax(-1), lambda x: x.cumsum(0)),
    ],
)
def test_reductions_of_no_elements_give_what_pytorch_gives_or_fail_as_it_does(
    reduce: Callable[[Any], Any], shape: tuple[int, ...]
) -> None:
    x = torch.zeros(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = reduce(x)
        except (RuntimeError, IndexError):
            with pytest.raises((RuntimeError, IndexError)):
                compiled(reduce)(x)
            return
        torch.testing.assert_close(compiled(reduce)(x), wanted, equal_nan=True)


def test_a_module_that_was_compiled_can_be_copied() -> None:
    module = compiled(torch.nn.Linear(3, 2))
    x = torch.randn(1, 3)
    module(x)
    torch.testing.assert_close(copy.deepcopy(module)(x), module(x))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_results_of_no_elements_lie_as_in_eager_mode(shape: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        return x + 1, torch.cat([x, x])

    x = torch.zeros(shape)
    for one, other in zip(compiled(function)(x), function(x), strict=True):
        assert (one.shape, one.stride()) == (other.shape, other.stride())


STRIDED: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "turned": (lambda x: x.as_strided((4, 3, 2), (1, 8, 4)), True),
    "another shape": (lambda x: x.as_strided((6, 4), (4, 1)), True),
    "repeated": (lambda x: x.as_strided((3, 5, 8), (8, 0, 1)), True),
    "as it was": (lambda x: x.as_strided((3, 2, 4), (8, 4, 1)), True),
    "of one that is turned": (lambda x: x.permute(2, 0, 1).clone().as_strided((24,), (1,)), True),
    "a part": (lambda x: x.as_strided((2, 4), (8, 1), 4), False),
    "windows": (lambda x: x.as_strided((5, 4), (4, 1)), False),
}


@pytest.mark.parametrize(("view", "is_by_axes"), STRIDED.values(), ids=STRIDED)
def test_views_by_strides_that_see_a_whole_tensor_are_computed_by_mgn(
    view: Callable[[Any], Any], is_by_axes: bool
) -> None:
    def function(x: Any) -> Any:
        return view(x * 2) + 1

    x = torch.randn(3, 2, 4, requires_grad=True)
    found, said = told(lambda: compiled(function)(x))
    torch.testing.assert_close(found, function(x))
    assert (not said) == is_by_axes, said
    weights = torch.randn_like(found)
    own = torch.autograd.grad((function(x) * weights).sum(), x)
    torch.testing.assert_close(torch.autograd.grad((found * weights).sum(), x), own)
