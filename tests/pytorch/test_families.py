"""Further sizes of a function under `torch.compile` are searched by its first, and by no other."""

import copy
import gc
import json

import pytest

from mgn.passes.saturate import SaturateReport
from mgn.passes.saturate.memo import forget_choices
from mgn.program_cache.references import forget_references
from tests.pytorch.nearness import check_near

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from mgn.torch import backend, families  # noqa: E402
from tests.pytorch.fresh_start import fresh  # noqa: E402, F401

nn, F = torch.nn, torch.nn.functional

SIZES = (6, 9, 5)


class Deep(nn.Module):
    """Norms, layers and gates, one behind the other: more operations than are searched whole."""

    def __init__(self, width: int = 8, layers: int = 24) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        """`x[N, width]`."""
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + F.silu(layer(norm(x)))
        return x


def started_anew() -> None:
    """As a process begins, but for what is on disk."""
    torch._dynamo.reset()
    backend.built.clear()
    forget_choices()
    forget_references()


@pytest.fixture(autouse=True)
def nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGN_PROGRAM_CACHE", "off")


def searched_by() -> list[tuple[str, str]]:
    """The parts that were built, each with the sizes that its operations were chosen for."""
    found = []
    for item in backend.built:
        for part in item.parts:
            report = part.executable.report
            assert isinstance(report.saturation, SaturateReport)
            found.append((report.graph, report.saturation.among.partition(",")[0]))
    return found


def kernels() -> list[str]:
    """The kernels of each part that was built."""
    return [
        json.dumps([sorted(map(str, part.executable.kernels.values())), str(part.executable.plan)])
        for item in backend.built
        for part in item.parts
    ]


def kernels_at(compiled, size: int) -> list[str]:
    """The kernels that a call compiles, in inference."""
    before = len(backend.built)
    with torch.no_grad():
        compiled(torch.zeros(size, 8))
    return kernels()[before:]


def test_further_sizes_are_searched_by_the_first_and_agree_with_pytorch() -> None:
    model = Deep()
    compiled = torch.compile(model, backend="mgn")
    for size in SIZES:
        x = torch.randn(size, 8)
        eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
        model.zero_grad()
        found, own, true = (f(x.to(kind)) for f, kind in (
            (compiled, torch.float32), (eager, torch.float32), (exact, torch.float64)))  # fmt: skip
        for result in (found, own, true):
            (result * result).sum().backward()
        check_near(*(item.detach().numpy() for item in (found, own, true)))
        weights = (item.layers[0].weight.grad.numpy() for item in (model, eager, exact))
        check_near(*weights)
    said = searched_by()
    assert [name for name, _ in said] == ["forward_0", "backward_0"] * 3
    assert [among for _, among in said[:2]] == ["", ""]
    assert all("of 6×8" in among for _, among in said[2:])


def test_the_kernels_of_a_size_are_those_of_its_first_whatever_came_between() -> None:
    first, second, third = SIZES
    compiled = torch.compile(Deep(), backend="mgn")
    wanted = {size: kernels_at(compiled, size) for size in (first, second, third)}
    assert all(wanted.values())
    started_anew()
    other = torch.compile(lambda x: Deep.forward(another, x), backend="mgn")
    another = Deep(layers=25)
    for size in (third, second):
        kernels_at(other, size)
    compiled = torch.compile(Deep(), backend="mgn")
    for size in (first, third, second):
        assert kernels_at(compiled, size) == wanted[size]


def test_a_first_size_that_comes_again_in_another_graph_is_the_same_program() -> None:
    compiled = torch.compile(Deep(), backend="mgn")
    first = kernels_at(compiled, 6)
    kernels_at(compiled, 9)
    assert kernels_at(compiled, 6) in ([], first)


def test_a_function_begins_anew_where_dynamo_does() -> None:
    model = Deep()
    kernels_at(torch.compile(model, backend="mgn"), 6)
    started_anew()
    kernels_at(torch.compile(model, backend="mgn"), 9)
    assert [among for _, among in searched_by()] == [""]


def test_parameters_of_other_shapes_are_no_further_size() -> None:
    def run(model, x):
        with torch.no_grad():
            return model(x)

    compiled = torch.compile(run, backend="mgn")
    for width in (8, 12):
        compiled(Deep(width), torch.zeros(6, width))
    assert [among for _, among in searched_by()] == ["", ""]


def test_each_size_is_searched_whole_where_that_is_asked_for() -> None:
    compiled = torch.compile(Deep(), backend="mgn", options={"share": False})
    for size in (6, 9):
        kernels_at(compiled, size)
    assert [among for _, among in searched_by()] == ["", ""]


def test_a_family_lives_as_long_as_its_programs() -> None:
    kernels_at(torch.compile(Deep(), backend="mgn"), 6)
    assert len(families._families) == 1
    started_anew()
    gc.collect()
    assert not families._families


def test_images_of_other_sizes_are_no_further_size_and_other_batches_are() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.SiLU(),
                                          nn.GroupNorm(2, 4)) for _ in range(16)))  # fmt: skip
    compiled = torch.compile(model, backend="mgn")
    with torch.no_grad():
        for shape in ((2, 4, 6, 6), (3, 4, 6, 6), (2, 4, 9, 9)):
            compiled(torch.zeros(shape))
    said = [among.partition(" of ")[2] for _, among in searched_by()]
    assert said == ["", "2×4×6×6", ""]
