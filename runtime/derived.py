"""What is made of parameters alone, held once for all executables of a session that make it alike.

In: a `LaunchPlan`, the signatures of its kernels, and how they are built. Out: `derived_keys`, a
key for each derived buffer, and `DerivedBuffers`, which has one buffer for each key.

A key says what a buffer holds: the parameters by their names, the kernels by their programs, and
how these are launched. What graphs call their values is not in it.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan, LaunchStep
from mgn.codegen.signature import KernelSignature
from mgn.runtime.host_arrays import as_bytes


@dataclass(frozen=True)
class DerivedKey:
    """What a derived buffer holds, as a digest, and the names of the parameters it is made of."""

    digest: str
    parameters: frozenset[str]


@dataclass(eq=False)
class Derived:
    """A buffer that executables hold together; `owner` keeps alive what the buffer lies in.
    `is_made` says whether it holds what its parameters' values give. That changes while the session
    is locked.
    """

    key: DerivedKey
    buffer: Any
    owner: object = None
    is_made: bool = False


class DerivedHolder(Protocol):
    """Holds derived buffers by their keys."""

    def hold(self, key: DerivedKey, make: Callable[[], Any], owner: object = None) -> Derived:
        """The buffer of a key, made where there is none: then it lies in memory of `owner`."""
        ...


class DerivedBuffers:
    """The derived buffers of a session, each for as long as an executable holds it.

    `changes` counts how often one had to be made again: who has seen that all of its own were made
    need not look before it differs.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._held: WeakValueDictionary[DerivedKey, Derived] = WeakValueDictionary()
        self._lock = threading.Lock()

    def hold(self, key: DerivedKey, make: Callable[[], Any], owner: object = None) -> Derived:
        """The buffer of a key, made where there is none: then it lies in memory of `owner`."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                self._held[key] = held = Derived(key, make(), owner)
            return held

    def parameter_changed(self, name: str) -> None:
        """Notes that a parameter has another value now; the caller has locked the session."""
        with self._lock:
            held = list(self._held.values())
        self.make_again(item for item in held if name in item.key.parameters)

    def make_again(self, items: Iterable[Derived]) -> None:
        """Notes that some do not hold what they should; the caller has locked the session."""
        for item in items:
            self.changes += item.is_made
            item.is_made = False


def derived_keys(
    plan: LaunchPlan, kernels: Mapping[str, KernelSignature], options: Sequence[str] = ()
) -> dict[int, DerivedKey]:
    """The key of each derived buffer of a plan, by its number."""
    found: dict[int, DerivedKey] = {}
    read: dict[int, DerivedKey] = {}
    for step in plan.prepare:
        signature = kernels[step.kernel]
        for item in _of_access(step, signature, is_read=True):
            if item not in read:
                read[item] = found[item] if item in found else _source_key(plan.buffers[item])
        found.update(_made_keys(step, signature, read, options))
    return found


def _made_keys(
    step: LaunchStep,
    signature: KernelSignature,
    read: Mapping[int, DerivedKey],
    options: Sequence[str],
) -> dict[int, DerivedKey]:
    """The keys of what a launch makes."""
    sources = _of_access(step, signature, is_read=True)
    parameters = frozenset[str]().union(*(read[item].parameters for item in sources))
    given = iter(sources)
    launch = _digest(
        repr((signature.global_size, signature.local_size, tuple(options))).encode(),
        signature.nameless,
        *(
            f"{planned.access} {planned.element} {planned.count} "
            f"{read[next(given)].digest if planned.access == 'read' else ''}".encode()
            for planned in signature.arguments
        ),
    )
    made = _of_access(step, signature, is_read=False)
    return {
        item: DerivedKey(_digest(launch.encode(), str(place).encode()), parameters)
        for place, item in enumerate(made)
    }


def _of_access(step: LaunchStep, signature: KernelSignature, is_read: bool) -> list[int]:
    """The buffers that a launch only reads, or those that it writes, in order."""
    pairs = zip(step.arguments, signature.accesses, strict=True)
    return [item for item, access in pairs if (access == "read") == is_read]


def _source_key(buffer: BufferPlan) -> DerivedKey:
    """The key of a parameter, which is the session's of its name, or of a constant."""
    said = repr((str(buffer.kind), buffer.element, buffer.shape)).encode()
    if buffer.kind is BufferKind.PARAM:
        return DerivedKey(_digest(said, buffer.name.encode()), frozenset((buffer.name,)))
    assert buffer.value is not None
    return DerivedKey(_digest(said, as_bytes(buffer.value)), frozenset())


def _digest(*parts: Any) -> str:
    """A digest of parts that are not mistaken for others, however long each is."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()
