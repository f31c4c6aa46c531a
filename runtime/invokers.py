"""The Python functions that pyopencl writes for kernels, shared by kernels that are alike.

In: nothing. Out: pyopencl, changed so that it writes and compiles the functions that set a kernel's
arguments once for equal names and arguments, not for each kernel object. A plan has an object for
each of its launches. pyopencl's own memory of these functions is a part of its cache on disk, which
is off (see `icd.py`).
"""

from collections.abc import Hashable
from importlib import import_module
from typing import Any

_FUNCTION = "generate_enqueue_and_set_args"


def share_invokers() -> None:
    """Changes pyopencl, once; a pyopencl that is made otherwise stays as it is."""
    invoker = import_module("pyopencl.invoker")
    written = getattr(invoker, _FUNCTION, None)
    if written is None:
        return
    known: dict[Hashable, Any] = {}

    def shared(*arguments: Any, devs: Any, **options: Any) -> Any:
        key = (arguments, tuple(sorted(options.items())))
        try:
            found = known.get(key)
        except TypeError:
            return written(*arguments, devs=devs, **options)
        if found is None:
            found = known[key] = written(*arguments, devs=devs, **options)
        return found

    setattr(invoker, _FUNCTION, shared)
