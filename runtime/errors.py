"""The errors of the runtime: everything a user can cause or repair derives from `RuntimeFault`.

In: a message that says what is wrong and what to do. Out: an exception that a command prints
without a traceback.
"""

from mgn.diagnostics import MgnError


class RuntimeFault(MgnError):
    """Base of all errors that the runtime raises on purpose."""


class DeviceError(RuntimeFault):
    """There is no OpenCL device, or none that the selector names."""


class BuildError(RuntimeFault):
    """The driver refused a kernel's program."""


class InputError(RuntimeFault):
    """The arrays of a call do not fit the graph's inputs."""


class NoParameter(InputError, KeyError):
    """A graph has no parameter of a name."""

    def __str__(self) -> str:
        return str(self.args[0])


class WeightsError(RuntimeFault):
    """A file of arrays cannot be read, or its arrays do not fit the parameters."""


class GuardError(RuntimeFault):
    """A kernel wrote outside the buffers it was given."""


class PackageError(RuntimeFault):
    """A file is no package, or is damaged at `offset`."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset
