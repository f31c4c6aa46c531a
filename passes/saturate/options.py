"""The options of `saturate`: which rules may act, and what bounds the search."""

from dataclasses import dataclass, field, replace
from typing import cast

from mgn.diagnostics import MgnError, clipped
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.rules.rule import RuleClass
from mgn.passes.saturate.rules.table import DEFAULT_CLASSES
from mgn.passes.saturate.sharing.chosen import ChosenOperations


@dataclass(frozen=True)
class SaturateOptions:
    """What may be done.

    `classes` are the rules that may act. `time_budget` has the processor's seconds for
    saturation, of up to 20,000 e-nodes. `extract_budget` bounds the work of extraction, of up to
    10,000 candidates, by the seconds that it takes a core: work is counted, and no choice depends
    on a machine's speed. More have more in proportion. `fuse` allows kernels of several operations.
    `prepare` computes what parameters alone decide once, when they are set. `moderate` lets rules
    take parameters to be moderate; an executable checks that when they are set. `memoise` decides
    equal regions of a graph, and equal graphs, once; without it only what a body costs, alone or
    arranged as several, is looked up. `reference` has the operations that were chosen at another
    size: a graph of their structure is searched among these alone.
    """

    classes: frozenset[RuleClass] = DEFAULT_CLASSES
    time_budget: float = 5.0
    extract_budget: float = 8.0
    fuse: bool = True
    prepare: bool = True
    moderate: bool = True
    memoise: bool = True
    limits: CutLimits = field(default_factory=CutLimits)
    reference: ChosenOperations | None = None

    def __post_init__(self) -> None:
        """MgnError where a field is not what it may be."""
        for name in ("time_budget", "extract_budget"):
            seconds = cast("object", getattr(self, name))
            if (
                isinstance(seconds, bool)
                or not isinstance(seconds, int | float)
                or not seconds >= 0
            ):
                raise MgnError(f"{name} takes a number of seconds, not {seconds!r}")
        for name in ("fuse", "prepare", "moderate", "memoise"):
            if not isinstance(cast("object", getattr(self, name)), bool):
                raise MgnError(f"{name} takes True or False, not {getattr(self, name)!r}")
        classes, limits = cast("object", self.classes), cast("object", self.limits)
        reference = cast("object", self.reference)
        if not isinstance(classes, frozenset) or not classes <= set(RuleClass):
            raise MgnError(f"classes takes a frozenset of RuleClass, not {classes!r}")
        if not isinstance(limits, CutLimits):
            raise MgnError(f"limits takes CutLimits, not {limits!r}")
        if reference is not None and not isinstance(reference, ChosenOperations):
            raise MgnError(f"reference takes ChosenOperations, not {clipped(repr(reference))}")

    @property
    def has_layouts(self) -> bool:
        """Whether images may lie in another layout than a graph says."""
        return self.fuse and RuleClass.REASSOCIATES in self.classes

    @property
    def with_roundings(self) -> "SaturateOptions":
        """The same for operands that a precision rounds: rules may say which factor of a product is
        rounded, where sums may be taken in another order.
        """
        if not self.classes >= DEFAULT_CLASSES:
            return self
        return replace(self, classes=self.classes | {RuleClass.ROUNDS})
