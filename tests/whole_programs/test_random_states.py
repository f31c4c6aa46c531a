"""Random programs that read and write states, run three times: what they leave and give.

In: a number. Out: a program of up to seven statements that write states in whole or in part, at
places that a state says, and read them in between.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from tests.whole_programs.test_states import DEVICE, first_values

RUNS = 3
X = np.array([0, 1, -2], np.float32)
STARTS = ("[p, 0]", "[2, p]", "[p, p]", "[-1, 9]", "[p + 1, 0]")
Drawn = TypeVar("Drawn")

ELEMENTS = ("f32", "f16", "i32")


class Writer:
    """Writes a program, a statement at a time, by what a generator draws."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        count = self._number(1, 4)
        self.shapes = [[self._number(1, 7), self._number(1, 6)] for _ in range(count)]
        self.elements = [self._one_of(*ELEMENTS) for _ in range(count)]
        self.results: list[str] = ["y"]
        self.lines = [
            f"state s{number}: {element}{shape} = constant({number + 1})"
            for number, (element, shape) in enumerate(zip(self.elements, self.shapes, strict=True))
        ]
        self.lines += ["state p: i32", "y = x + 1"]
        for _ in range(self._number(2, 8)):
            self._one_of(*STATEMENTS)(self, self._number(0, count))

    @property
    def text(self) -> str:
        body = "\n  ".join([*self.lines, f"return {', '.join(self.results)}"])
        return f"graph g(x: f32[3]) {{\n  {body}\n}}"

    def part(self, k: int) -> None:
        """Writes a part: of the input, of the state itself, or of what it holds elsewhere."""
        sizes = [self._number(1, size + 1) for size in self.shapes[k]]
        source = self._one_of(
            self._filled(k, sizes),
            f"s{k}[0:{sizes[0]}, 0:{sizes[1]}] + s{k}[-1, -1]",
            f"slice(s{k}, [0, 0], {sizes}) * 2",
        )
        self.lines.append(f"s{k} <- dynamic_update_slice(s{k}, {source}, {self._one_of(*STARTS)})")

    def whole(self, k: int) -> None:
        """Writes all of it."""
        value = self._one_of(
            f"{self._filled(k, self.shapes[k])} + s{k}",
            f"where(s{k} > 1, s{k}, s{k} * 0)",
            f"flip(s{k})",
            f"scatter_add(s{k}, cast(x, i32), {self._filled(k, [3, self.shapes[k][1]])})",
        )
        self.lines.append(f"s{k} <- {value}")

    def exchange(self, k: int) -> None:
        """Two states of one type change places."""
        types = list(zip(self.elements, self.shapes, strict=True))
        other = max(number for number, type in enumerate(types) if type == types[k])
        self.lines += [f"old = s{k}", f"s{k} <- s{other}", f"s{other} <- old"]

    def before_and_after(self, k: int) -> None:
        """Writes a part, and gives what was there before with what is there then."""
        name = f"v{len(self.results)}"
        self.lines.append(f"old = s{k}")
        self.part(k)
        self.lines.append(f"{name} = old * 2 + s{k}")
        self.results.append(name)

    def move_on(self, k: int) -> None:
        """Later statements write elsewhere."""
        self.lines.append("p <- p + 1")

    def read(self, k: int) -> None:
        """Gives what it holds now."""
        value = self._one_of(
            f"s{k}", f"s{k} * 2", f"sum(s{k}, axis = -1)", f"dynamic_slice(s{k}, [p, p], [1, 1])"
        )
        name = f"v{len(self.results)}"
        self.lines.append(f"{name} = {value}")
        self.results.append(name)

    def _filled(self, k: int, shape: list[int]) -> str:
        """A value of the state's element type that depends on the input."""
        value = f"cast(sum(x) * {self._number(1, 4)} + 2, {self.elements[k]})"
        return f"broadcast_to({value}, {shape})"

    def _number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))

    def _one_of(self, *choices: Drawn) -> Drawn:
        return choices[self._number(0, len(choices))]


STATEMENTS: tuple[Callable[[Writer, int], None], ...] = (
    *(Writer.part, Writer.part, Writer.part, Writer.before_and_after),
    *(Writer.whole, Writer.exchange, Writer.move_on, Writer.read, Writer.read),
)


@pytest.mark.parametrize("seed", range(12))
def test_random_writes_leave_and_give_what_the_interpreter_does(seed: int) -> None:
    text = Writer(seed).text
    program = mgn.parse(text)
    exe = mgn.compile(program, device=DEVICE)
    reference = Interpreter({}, states=first_values(program))
    (graph,) = graphs_of(program.lower())
    for _ in range(RUNS):
        found, wanted = exe(x=X), reference.run(graph, {"x": X})
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-3, err_msg=f"{name}\n{text}")
        assert {line.split()[0] for line in text.splitlines() if "<-" in line} <= {*exe.state}
        for name, held in exe.state.items():
            left = reference.states[name]
            np.testing.assert_allclose(held, left, rtol=1e-3, err_msg=f"{name}\n{text}")
