"""The benchmark of PyTorch's models, on one of them: it compares results and gradients itself."""

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
