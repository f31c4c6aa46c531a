"""What is wrong with an ONNX model: messages with the node, and what to do."""

import shlex
from collections.abc import Mapping, Sequence

from mgn.diagnostics import Diagnostic, DiagnosticsError, spelled
from mgn.dialects.mgn.build import CallError


class NotKnown(CallError):
    """A value has to be known when the model is read, and depends on inputs of the graph."""

    def __init__(self, what: str, inputs: Sequence[str]) -> None:
        self.inputs = tuple(inputs)
        if not inputs:
            super().__init__(f"{what} must be known when the model is read, and is random")
            return
        names = ", ".join(f"'{name}'" for name in inputs)
        python = ", ".join(f"{name!r}: …" for name in inputs)
        options = " ".join(f"--constant {shlex.quote(f'{name}=VALUE')}" for name in inputs)
        given = spelled(f"mgn.from_onnx(…, constants = {{{python}}})", options)
        super().__init__(
            f"{what} must be known when the model is read, and depends on input {names}; "
            f"{given} gives it a value"
        )


class UnknownValues(DiagnosticsError):
    """A model that can be read once these inputs are given as constants."""

    def __init__(self, diagnostic: Diagnostic, inputs: Sequence[str]) -> None:
        self.inputs = tuple(inputs)
        super().__init__([diagnostic])


class MissingDimensions(DiagnosticsError):
    """Dimensions of a model that have no size yet, with the inputs that have them."""

    def __init__(self, file: str, missing: Mapping[str, Sequence[str]]) -> None:
        listing = "; ".join(f"'{name}' of {' and '.join(uses)}" for name, uses in missing.items())
        python = f"dims = {{{', '.join(f'{name!r}: …' for name in missing)}}}"
        options = " ".join(f"--dim {shlex.quote(f'{name}=N')}" for name in missing)
        given = spelled(python, options)
        message = f"dimensions without a size: {listing}; {given} gives them one"
        super().__init__([Diagnostic(message, file)])
