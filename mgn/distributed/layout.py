"""Where gradients lie in buckets, and who owns which parameter.

In: the sizes of gradients, in the order in which a device has them ready. Out: buckets of one size,
in which gradients follow one another; a long one goes on in the next bucket. A bucket has a share
for each rank that sums:

    gradients   | a      | b                        | c | nothing |
    buckets     | 0                | 1                  | …
    shares      | 0      | 1       | 0      | 1         |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LINE = 16
"""Elements of which the length of a share is a multiple."""


@dataclass(frozen=True)
class Part:
    """`count` elements of a tensor, from `start` on, and their `place` in a bucket."""

    name: str
    start: int
    count: int
    place: int


@dataclass(frozen=True)
class Layout:
    """Buckets of `shares` shares of `length` elements each."""

    shares: int
    length: int
    buckets: tuple[tuple[Part, ...], ...]

    @property
    def size(self) -> int:
        """Elements of a bucket."""
        return self.shares * self.length

    def names(self, bucket: int) -> list[str]:
        """The tensors of which a bucket has a part."""
        return list(dict.fromkeys(part.name for part in self.buckets[bucket]))

    def cut(self, part: Part) -> list[tuple[int, Part]]:
        """A part in the shares of its bucket: each share's number, and a part whose place counts
        from the share's beginning.
        """
        found: list[tuple[int, Part]] = []
        done = 0
        while done < part.count:
            share, place = divmod(part.place + done, self.length)
            count = min(part.count - done, self.length - place)
            found.append((share, Part(part.name, part.start + done, count, place)))
            done += count
        return found


def lay_out(sizes: Mapping[str, int], most: int, shares: int) -> Layout:
    """The buckets of tensors, of at most so many elements, or a line for each share; all as full
    as they can be.
    """
    total, line = max(sum(sizes.values()), 1), shares * LINE
    count = -(-total // max(most // line * line, line))
    length = -(-total // (count * line)) * LINE
    size = shares * length
    buckets: list[list[Part]] = [[] for _ in range(-(-total // size))]
    at = 0
    for name, count in sizes.items():
        done = 0
        while done < count:
            bucket, place = divmod(at, size)
            part = min(count - done, size - place)
            buckets[bucket].append(Part(name, done, part, place))
            done, at = done + part, at + part
    return Layout(shares, length, tuple(map(tuple, buckets)))


@dataclass
class _Load:
    """What a rank owns so far."""

    rank: int
    bytes: int = 0
    names: list[str] = field(default_factory=list[str])


def share_out(sizes: Mapping[str, int], ranks: int) -> dict[str, int]:
    """The rank that owns each parameter: the largest come first, each to the one that has least."""
    loads = [_Load(rank) for rank in range(ranks)]
    for name in sorted(sizes, key=lambda item: (-sizes[item], item)):
        least = min(loads, key=lambda item: (item.bytes, item.rank))
        least.bytes += max(sizes[name], 1)
        least.names.append(name)
    owner = {name: load.rank for load in loads for name in load.names}
    return {name: owner[name] for name in sizes}


def in_order(ready: Mapping[str, int], names: Sequence[str]) -> list[str]:
    """Names in the order in which they are ready."""
    return sorted(names, key=lambda name: (ready[name], names.index(name)))
