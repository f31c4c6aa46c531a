"""Whether a process is one of several that `mpiexec` started, and the crew that these are.

In: what the launcher left in the environment, or a communicator. Out: a `Crew`. MPI itself is
imported where there are several processes, and not before.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from mgn.diagnostics import MgnError, argument_name, spelled
from mgn.distributed.crew import ALONE, Crew

if TYPE_CHECKING:
    from mgn.distributed.ranks import Ranks

MOST_MEBIBYTES = 1024
"""Of a bucket of gradients."""

COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
"""Variables in which launchers say how many processes there are."""


def launched_ranks(environment: Mapping[str, str] = os.environ) -> int:
    """How many processes the launcher started; 1 where there was none."""
    for name in COUNTS:
        count = environment.get(name, "")
        if count.isdigit():
            return max(int(count), 1)
    return 1


def find_crew(ranks: Any = None) -> Crew:
    """The crew of a trainer: with `None`, of all processes that were started together; with
    `False`, of this one; that of a communicator of mpi4py; or another trainer's.

    MgnError where mpi4py is missing, or is of another MPI than the launcher.
    """
    if ranks is False:
        return ALONE
    if ranks is None:
        return _world() if launched_ranks() > 1 else ALONE
    if hasattr(ranks, "in_turn"):
        return ranks
    if not hasattr(ranks, "Iallgather"):
        said = type(ranks).__name__
        raise MgnError(
            f"ranks takes None, False, a communicator of mpi4py or a trainer's crew, not {said}"
        )
    from mgn.distributed.ranks import Ranks

    return Ranks(ranks) if ranks.size > 1 else ALONE


def check_stage(zero: int, bucket: float) -> None:
    """MgnError where a stage of ZeRO is not there, or a bucket has no size."""
    if zero not in (0, 1) or isinstance(zero, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MgnError(
            f"zero is 0, or 1 where ranks share out the optimiser's states, not {zero!r:.80}"
        )
    is_number = isinstance(bucket, int | float) and not isinstance(bucket, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_number or not 0.0 < bucket <= MOST_MEBIBYTES:
        name = argument_name("bucket")
        raise MgnError(f"{name} takes a number of MiB up to {MOST_MEBIBYTES}, not {bucket!r:.80}")


@cache
def _world() -> "Ranks":
    """The crew of all processes that were started together."""
    try:
        from mpi4py import MPI as mpi
    except (ImportError, RuntimeError):  # without a library of MPI it is the latter
        raise MgnError(
            f"a run of {launched_ranks()} processes needs mpi4py and MPI: "
            "python -m pip install 'mgn-compiler[distributed]'"
            f"{spelled('; ranks=False trains in each by itself', '')}"
        ) from None
    if mpi.COMM_WORLD.size == 1:
        raise MgnError(
            f"{launched_ranks()} processes were started, and mpi4py sees one: the launcher is of "
            "another MPI than mpi4py; take the mpiexec of the environment that has mpi4py"
        )
    from mgn.distributed.ranks import Ranks

    return Ranks(mpi.COMM_WORLD)
