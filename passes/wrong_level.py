"""The error of a pass that meets an operation of another level than it works on.

In: the pass, the operation, and what that is not. Out: an error with the operation's place, which
says what the passes before are.
"""

from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from mgn.diagnostics import MgnError


class WrongLevel(MgnError, PassFailedException):
    """An operation that has no place in what a pass takes."""

    def __init__(self, pass_name: str, operation: Operation, wanted: str, before: str) -> None:
        text = f"{pass_name}: {operation.name} is no {wanted}; {before}"
        super().__init__(text)
        self.operation = operation
