"""ONNX's own tests of its operators: `python -m tests.onnx_models.node_tests`.

In: words that the names of tests begin with (default: all), `--device` to run kernels (default: the
reference interpreter). Out: how many pass, and the ones that do not, each with what is wrong.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.diagnostics import MgnError


@dataclass(frozen=True)
class Outcome:
    """How one test went: `problem` is empty where it passed."""

    name: str
    problem: str


def cases(starts: Sequence[str] = ()) -> list[Any]:
    """ONNX's tests whose names begin with one of these words; all, where there are none."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    wanted = tuple(item if item.startswith("test_") else f"test_{item}" for item in starts)
    return [case for case in found if not wanted or case.name.startswith(wanted)]


def outcome(case: Any, backend: Any, device: str = "CPU") -> Outcome:
    """Runs one test."""
    from onnx.backend.test.runner import Runner

    try:
        prepared = backend.prepare(case.model, device)
        for inputs, wanted in case.data_sets:
            found = prepared.run([_plain(item) for item in inputs])
            Runner.assert_similar_outputs(
                [_plain(item) for item in wanted], found, rtol=case.rtol, atol=case.atol
            )
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
    failed = 0
    for item in outcomes(found, arguments.device):
        if item.problem:
            failed += 1
            sys.stdout.write(f"{item.name}: {item.problem}\n")
    passed = len(found) - failed
    sys.stdout.write(f"{passed} of {len(found)} pass ({passed / max(len(found), 1):.1%})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
