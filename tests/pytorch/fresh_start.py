"""What a test of `torch.compile` begins with. Whoever imports this skips without PyTorch."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from mgn.torch import backend, running  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    """Nothing compiled, nothing warned of."""
    torch._dynamo.reset()
    backend.built.clear()
    running.warned.clear()
    torch.manual_seed(0)
