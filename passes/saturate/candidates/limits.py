"""Bounds of the search for candidates, and why a candidate is left out."""

from dataclasses import dataclass, replace

SMALL = 12
"""Values that kernels compute up to which a graph is small: it is searched whole."""
NEARLY_SMALL = 20
"""Those up to which a graph is searched whole if a quarter as many kernels are likely."""
MEDIUM = 64
"""Those up to which wide joins are tried."""

DEARER = "kernels that read what the next one computes as it goes"
BEYOND = "kernels that are in no choice that costs less, or have another one in their place"
NO_GAIN = "joint kernels that cost as much as those they join"
TIME = "kernels beyond the limits of the search"
"""Why a candidate is left out: another is no worse, or for want of time."""


@dataclass(frozen=True)
class CutLimits:
    """Bounds of the search, which do not say that what lies beyond them is worse.

    `cuts` are kept for each kernel kind, `attending` ones of attention, `in_parts` of one whose
    keys may be cut, and `besides` that read what these compute; attentions that take what is lying
    rounded in memory count by themselves.
    `merges` are tried for an e-node, `attention` for an attention: it has up to four operands, each
    of which may come in two ways at least that cost as much. A user of a class tries `ways` of its
    cuts where all are of one kind, and else `pointwise` ones and `others` of each further kind;
    products that reduce rows are a way besides: there is always one without. The last `extras`
    values inside a body may be written too. Of the kernels that read one value, `readers` are
    joined with each other and up to `together` at once, `forms` of each result. `operations` and
    `leaves` bound a body.

    `whole` says that the search goes on to all kernels that may win, while they are at most
    `kernels` (every_kernel.py), of which `likely` ones may be in a cheaper choice.
    `wide` joins are of more than two, and of pointwise kernels beside reductions.
    `keep_bits` says that a kernel must give the bits of its operations alone, `memoise` that what
    repeats is worked out once.
    """

    cuts: int = 4
    besides: int = 2
    merges: int = 24
    attention: int = 81
    attending: int = 8
    in_parts: int = 32
    ways: int = 3
    pointwise: int = 2
    others: int = 1
    extras: int = 4
    readers: int = 6
    together: int = 18
    forms: int = 2
    kernels: int = 8000
    likely: int = 2000
    operations: int = 64
    leaves: int = 16
    whole: bool = False
    wide: bool = False
    keep_bits: bool = False
    memoise: bool = True

    @property
    def rough(self) -> "CutLimits":
        """Limits for a choice that only says what lies in memory."""
        return replace(
            self, cuts=1, besides=1, merges=4, ways=1, pointwise=1, extras=1, readers=0, wide=False
        )

    def for_size(self, values: int) -> "CutLimits":
        """The limits for a graph of which kernels compute so many values."""
        if values > MEDIUM or self.operations == 1:
            return self
        likely = self.likely if self.whole or values <= SMALL else self.likely // 4
        whole = self.whole or values <= NEARLY_SMALL
        return replace(self, wide=True, forms=max(self.forms, 4), whole=whole, likely=likely)
