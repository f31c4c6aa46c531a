"""Passes of a user's own: by name in pipelines, and as a part of the default ones.

In: an xDSL `ModulePass`. Out: its row in `PASSES`, and where it is to run by itself, its place in
the pipelines.

    @mgn.register_pass(before="saturate")
    @dataclass(frozen=True)
    class WithoutDropout(ModulePass):
        name = "without-dropout"

        def apply(self, ctx: Context, op: ModuleOp) -> None: ...
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, cast, overload

from xdsl.passes import ModulePass

from mgn.driver.pipelines import PASSES, PIPELINES, PassRow, PipelineError

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

AnyPass = type[ModulePass]


@overload
def register_pass(
    found: AnyPass, *, before: str | None = None, after: str | None = None
) -> AnyPass: ...


@overload
def register_pass(
    found: None = None, *, before: str | None = None, after: str | None = None
) -> Callable[[AnyPass], AnyPass]: ...


def register_pass(
    found: AnyPass | None = None, *, before: str | None = None, after: str | None = None
) -> AnyPass | Callable[[AnyPass], AnyPass]:
    """Makes a pass known by its `name`: a call, or a decorator of the class.

    `before` and `after` name a pass of the default pipeline. There, and in every other pipeline
    that has it, the new one then runs by itself, in every command and call. PipelineError where
    the class is no pass, its name is none or is taken, or the place is not in the default pipeline.
    """
    if found is None:
        return lambda given: register_pass(given, before=before, after=after)
    name = _checked_name(found)
    if before is not None and after is not None:
        raise PipelineError(f"pass '{name}': before or after says where it runs, not both")
    place = before if before is not None else after
    if place is not None and place not in PIPELINES["default"]:
        known = ", ".join(PIPELINES["default"])
        raise PipelineError(f"pass '{name}': the default pipeline has no '{place}'; it has {known}")
    said = (inspect.getdoc(found) or "").partition("\n")[0].rstrip(".")
    PASSES[name] = PassRow(found.__module__, said or f"a pass of {found.__module__}", found)
    if place is not None:
        for pipeline, names in PIPELINES.items():
            if place not in names:
                continue
            at = names.index(place) + (after is not None)
            PIPELINES[pipeline] = (*names[:at], name, *names[at:])
    return found


def forget_pass(name: str) -> None:
    """Takes a pass back that was registered. PipelineError for any other."""
    if not isinstance(cast("object", name), str) or name not in PASSES or PASSES[name].own is None:
        raise PipelineError(f"no pass was registered under the name {name!r}")
    del PASSES[name]
    for pipeline, names in PIPELINES.items():
        PIPELINES[pipeline] = tuple(item for item in names if item != name)


def _checked_name(found: Any) -> str:
    """The name of a class that can be registered."""
    if not isinstance(found, type) or not issubclass(found, ModulePass):
        said = found.__name__ if isinstance(found, type) else type(found).__name__
        raise PipelineError(f"register_pass takes a class that is a ModulePass of xDSL, not {said}")
    name = cast("object", getattr(found, "name", None))
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise PipelineError(
            f"{found.__name__}.name is the pass's name, such as 'without-dropout', not {name!r}"
        )
    if name in PASSES or name in PIPELINES:
        raise PipelineError(f"the name '{name}' is taken; forget_pass takes back one of your own")
    return name
