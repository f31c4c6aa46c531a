"""The benchmark of PyTorch's models, on one of them: it compares results and gradients itself. What
it says of a gradient on the other side of a kink is computed here without mgn.
"""

import copy

import pytest

torch = pytest.importorskip("torch")

from benchmarks import torch_models  # noqa: E402
from benchmarks.contests.torch_model_cases import Case, UNet  # noqa: E402


@pytest.mark.long
@pytest.mark.parametrize("is_training", [False, True])
def test_a_u_net_agrees_with_eager_mode(is_training: bool) -> None:
    torch.manual_seed(0)
    case = Case(UNet(4), {"x": torch.randn(1, 3, 6, 8)})
    row = torch_models.measure(case, is_training, with_inductor=False, repeats=1)
    assert row.error <= max(4 * row.eager_error, 1e-5)
    assert row.kernels and not row.calls and len(row.milliseconds) == 2


def test_a_wrong_result_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_models, "ROUNDINGS", -1.0)
    monkeypatch.setattr(torch_models, "MOST", -1.0)
    case = Case(torch.nn.Linear(3, 2), {"input": torch.randn(1, 3)})
    with pytest.raises(SystemExit, match="wrong result"):
        torch_models.measure(case, False, with_inductor=False, repeats=1)


def beside_a_kink() -> tuple[Case, torch_models.Run, torch_models.Run]:
    """A model with one input of a ReLU that is next to nothing; its exact run, and the one with
    that input on the other side, which changes the gradients by half.
    """
    torch.manual_seed(3)
    case = Case(
        torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)),
        {"input": torch.randn(2, 64)},
    )
    first, last = case.model[0], case.model[2]
    with torch.no_grad():
        products = case.inputs["input"].double() @ first.weight.double().T
        first.bias[4] = -float(products[0, 4])
        last.weight[:, 4] = 10.0
    other = copy.deepcopy(case.model)
    with torch.no_grad():
        sides = products[0, 4] + first.bias[4].double()
        other[0].bias[4] -= 1e-6 * sides.sign()
    wide = torch_models.doubled(case)
    moved = torch_models.doubled(Case(other, case.inputs))
    exact, found = (torch_models.run(item.model, item, True) for item in (wide, moved))
    return case, exact, found


def test_a_gradient_on_the_other_side_of_a_kink_is_compared_with_the_exact_one_there() -> None:
    case, exact, found = beside_a_kink()
    assert torch_models.distance(found, exact) > 0.1
    there, sides = torch_models.on_its_side(found, exact, case)
    assert sides == 1
    assert torch_models.distance(found, there) < 2e-4


def test_kinks_excuse_no_wrong_gradient() -> None:
    case, exact, found = beside_a_kink()
    for name in exact.gradients:
        for run in (exact, found):
            wrong = run._replace(gradients={**run.gradients, name: run.gradients[name] * 1.01})
            there, _ = torch_models.on_its_side(wrong, exact, case)
            assert torch_models.distance(wrong, there) > 1e-3
