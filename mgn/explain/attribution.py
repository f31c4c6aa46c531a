"""Which of the program's operations a kernel computes.

In: a trace of saturate and the chosen kernels. Out: for each kernel the numbers of the program's
operations, and what it reads from and writes for.

An operation belongs to the kernels whose bodies compute its e-class. A composite also belongs to
those that compute a part which no other operation has. Where a body takes a slice in the
operation's place, it belongs to the kernels of the sliced value. One whose value no body computes,
because a rule put something else in place of it and its users, belongs where those do.
"""

from collections import Counter
from collections.abc import Sequence

from mgn.passes.saturate.candidates.candidates import Candidate
from mgn.passes.saturate.explain.trace import SaturateTrace


class Attribution:
    """The program's operations by kernel; kernels are numbered in the order they run."""

    def __init__(self, trace: SaturateTrace, chosen: Sequence[Candidate]) -> None:
        assert trace.saturated is not None and trace.view is not None
        self.trace = trace
        self.view = trace.view
        self.class_of = trace.saturated.class_of
        self.computing: dict[int, list[int]] = {}
        self.sliced: dict[int, set[int]] = {}
        self.writer: dict[int, int] = {}
        for number, candidate in enumerate(chosen):
            for key, signature, operands in candidate.body:
                self.computing.setdefault(key, []).append(number)
                if self.view.signatures[signature].name == "slice":
                    self.sliced.setdefault(key, set()).update(operands)
            for key in candidate.results:
                self.writer.setdefault(key, number)
        self.sources: dict[int, list[int]] = {number: [] for number in range(len(chosen))}
        self._attribute()
        self._attribute_rest(chosen)

    def neighbours(self, candidate: Candidate) -> tuple[list[int | str], list[str]]:
        """The kernels and inputs that a kernel reads, and the outputs that it writes."""
        names = {self.class_of[handle]: name for handle, name in self.trace.names.items()}
        reads: list[int | str] = []
        for key in candidate.reads:
            if key in self.writer:
                reads.append(self.writer[key])
            elif key in names:
                reads.append(names[key])
        written = dict(zip(self.trace.outputs, self.view.outputs, strict=True))
        writes = [name for name, key in written.items() if key in candidate.results]
        return list(dict.fromkeys(reads)), writes

    def _attribute(self) -> None:
        by_handle: dict[int, set[int]] = {}
        sharing = Counter(
            key
            for operation in self.trace.operations
            for key in {self.class_of[handle] for handle in operation.parts}
        )
        for number in reversed(range(len(self.trace.operations))):
            operation = self.trace.operations[number]
            kernels: set[int] = set()
            own = [item for item in operation.parts if sharing[self.class_of[item]] == 1]
            for handle in (*operation.results, *own):
                key = self.class_of[handle]
                whole = self.sliced.get(key, ()) if operation.name != "slice" else ()
                for item in whole or (key,):
                    kernels |= set(self.computing.get(item, ()))
            if not kernels:
                for handle in operation.results:
                    kernels |= by_handle.get(handle, set())
            for handle in operation.operands:
                by_handle.setdefault(handle, set()).update(kernels)
            for kernel in kernels:
                self.sources[kernel].append(number)
        for numbers in self.sources.values():
            numbers.reverse()
        for kernel, numbers in self.sources.items():
            if not numbers:
                numbers += self._first_sharing(kernel)

    def _attribute_rest(self, chosen: Sequence[Candidate]) -> None:
        """Kernels of copies and partial results belong to the operations that these are for."""
        readers: dict[int, list[int]] = {}
        for number, candidate in enumerate(chosen):
            for key in candidate.reads:
                readers.setdefault(key, []).append(number)
        for number in reversed(range(len(chosen))):
            if not self.sources[number]:
                reading = [n for key in chosen[number].results for n in readers.get(key, ())]
                self.sources[number] = sorted({item for n in reading for item in self.sources[n]})

    def _first_sharing(self, kernel: int) -> list[int]:
        """The first composite with a part that a kernel computes for several of them."""
        for number, operation in enumerate(self.trace.operations):
            for handle in operation.parts:
                if kernel in self.computing.get(self.class_of[handle], ()):
                    return [number]
        return []
