"""ONNX's own tests of its operators: `python -m tests.onnx_models.node_tests`.

In: words that the names of tests begin with (default: all), `--device` to run kernels (default: the
reference interpreter). Out: how many pass, the ones that do not, each with what is wrong, and
status 1 where these are not the ones of `failures.py`.
"""

import argparse
import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.diagnostics import MgnError
from tests.onnx_models.failures import LISTED


@dataclass(frozen=True)
class Outcome:
    """How one test went: `problem` is empty where it passed."""

    name: str
    problem: str


def cases(starts: Sequence[str] = (), files: Sequence[str] = ()) -> list[Any]:
    """ONNX's tests whose names begin with one of these words, in these files; all, where there are
    none.
    """
    from onnx.backend.test.case import node

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for file in files:
            importlib.import_module(f"onnx.backend.test.case.node.{file}")
        found = node._NodeTestCases if files else node.collect_testcases(None)
    wanted = tuple(item if item.startswith("test_") else f"test_{item}" for item in starts)
    return [case for case in found if not wanted or case.name.startswith(wanted)]


def outcome(case: Any, backend: Any, device: str = "CPU") -> Outcome:
    """Runs one test."""
    from onnx.backend.test.runner import Runner

    try:
        prepared = backend.prepare(case.model, device)
        for inputs, wanted in case.data_sets:
            found = prepared.run([_plain(item) for item in inputs])
            pairs = _paired(list(found), [_plain(item) for item in wanted])
            for one, other in pairs:
                Runner.assert_similar_outputs([other], [one], rtol=case.rtol, atol=case.atol)
    except MgnError as error:
        return Outcome(case.name, _first(str(error)))
    except (AssertionError, TypeError) as error:
        return Outcome(case.name, f"wrong: {' '.join(str(error).split())[:300]}")
    except Exception as error:
        return Outcome(case.name, f"{type(error).__name__}: {error}")
    return Outcome(case.name, "")


def _plain(item: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    if isinstance(item, list | tuple):
        return [_plain(part) for part in item]
    return numpy_helper.to_array(item) if isinstance(item, TensorProto) else item


def _paired(found: list[Any], wanted: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Arrays that are to be the same, those of sequences too."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if isinstance(other, list):
            yield from _paired(one, other)
        else:
            yield one, other


def _first(text: str) -> str:
    return next(iter(text.splitlines()), text)


def outcomes(found: Sequence[Any], device: str | None) -> Iterator[Outcome]:
    """Runs tests one after the other."""
    from mgn.onnx_backend import MgnBackend, ReferenceBackend

    for case in found:
        backend = ReferenceBackend if device is None else MgnBackend
        yield outcome(case, backend, device or "CPU")


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("starts", nargs="*")
    parser.add_argument("--device", default=None)
    arguments = parser.parse_args(argv)
    found = cases(arguments.starts)
    failed = set[str]()
    for item in outcomes(found, arguments.device):
        if item.problem:
            failed.add(item.name)
            sys.stdout.write(f"{item.name}: {item.problem}\n")
            sys.stdout.flush()
    passed = len(found) - len(failed)
    sys.stdout.write(f"{passed} of {len(found)} pass ({passed / max(len(found), 1):.1%})\n")
    expected = {case.name for case in found} & LISTED
    for said, names in (
        ("fails, and is not listed", failed - expected),
        ("is listed, and passes", expected - failed),
    ):
        for name in sorted(names):
            sys.stdout.write(f"{name} {said}\n")
    return int(failed != expected)


if __name__ == "__main__":
    sys.exit(main())
