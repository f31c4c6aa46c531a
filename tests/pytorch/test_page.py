"""The examples of the page on PyTorch run."""

import pytest

from tests.house.test_documentation import texts

torch = pytest.importorskip("torch")

BLOCKS = {name: text for name, text in texts("py").items() if name.startswith("pytorch.md")}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_the_page_runs(name: str) -> None:
    torch._dynamo.reset()
    exec(compile(BLOCKS[name], "<documentation>", "exec"), {"__name__": "documentation"})


def test_the_page_has_blocks() -> None:
    assert len(BLOCKS) == 2
