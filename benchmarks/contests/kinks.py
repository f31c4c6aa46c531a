"""Which side of a kink each run took: gradients jump where an input of a ReLU is 0.

In: the gradients of a run by name, and how to run the model in f64 and in f32. Out: the gradients
in f64 on the side that the run took, where only inputs within rounding of a kink change sides.

An input that is nearer to 0 than its own rounding in f32 has another sign in another order of sums.
Both gradients are right, and they differ by all that the place sends back. `on_the_side_of` finds
such places by eager mode alone: where the f64 input is nearer to a kink than `MOST` times the
difference of eager's f32 from it. It computes in f64 what each of them changes when its input is
mirrored at the kink, and which of these changes are in the difference of the run. A run is judged
beside f64 with those places mirrored, by the same bound as any other run. So a wrong gradient is
not excused: it would have to be the exact one for signs that rounding allows.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

MOST = 4.0
"""How many times as far as eager's difference a kink may be from an input; as for results."""

MOST_PLACES = 100
"""How many places are tried, the nearest first."""

MOST_READ = 4096
"""How many elements of a gradient say which places a run has moved; all of them are judged."""


def _clipped(x: torch.Tensor, low: float = -1.0, high: float = 1.0, *rest: Any) -> Sequence[float]:
    return low, high


KINKS: dict[Any, Callable[..., Sequence[float]]] = {
    **dict.fromkeys((F.relu, torch.relu, torch.relu_, torch.Tensor.relu), lambda *_: (0.0,)),
    F.leaky_relu: lambda *_: (0.0,),
    F.relu6: lambda *_: (0.0, 6.0),
    F.hardtanh: _clipped,
    **dict.fromkeys((F.hardswish, F.hardsigmoid), lambda *_: (-3.0, 3.0)),
}
"""The functions with kinks: at which inputs, by their arguments."""


class Input(NamedTuple):
    """What a function with kinks was called with, and where its kinks are."""

    value: torch.Tensor
    kinks: Sequence[float]


class Place(NamedTuple):
    """An element of a call's input within rounding of a kink: how near it is, in roundings, and
    what mirrors it.
    """

    nearness: float
    call: int
    element: tuple[int, ...]
    shift: float


class Watch(TorchFunctionMode):
    """Keeps the inputs of functions with kinks, and moves some of their elements."""

    def __init__(self, moved: Iterable[Place] = ()) -> None:
        super().__init__()
        self.inputs: list[Input] = []
        self.moved = list(moved)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the function."""
        if func not in KINKS:
            return func(*args, **(kwargs or {}))
        x, *rest = args
        here = [place for place in self.moved if place.call == len(self.inputs)]
        self.inputs.append(Input(x.detach().clone(), KINKS[func](x, *rest)))
        if here:
            shifts = torch.zeros_like(x)
            for place in here:
                shifts[place.element] = place.shift
            x = x + shifts
        return func(x, *rest, **(kwargs or {}))


def places_near(exact: Sequence[Input], eager: Sequence[Input]) -> list[Place]:
    """The elements that rounding may take to the other side of a kink, the nearest first."""
    found: list[Place] = []
    for call, (wide, own) in enumerate(zip(exact, eager, strict=True)):
        rounding = float((own.value - wide.value).abs().max()) if wide.value.numel() else 0.0
        for kink in wide.kinks:
            distances = wide.value - kink
            for index in (distances.abs() <= MOST * rounding).nonzero().tolist():
                away = float(distances[tuple(index)])
                near = abs(away) / max(rounding, 1e-300)
                found.append(Place(near, call, tuple(index), -2 * away))
    return sorted(found)[:MOST_PLACES]


Gradients = dict[str, torch.Tensor]
Watched = Callable[[Watch], Gradients]
"""The gradients of a model that is run under a watch."""


def on_the_side_of(found: Gradients, exact: Watched, eager: Watched) -> tuple[Gradients, int]:
    """The gradients in f64 on the side of the kinks that a run took, and how many places that
    moves. `exact` and `eager` run the model in f64 and in f32.
    """
    watches = Watch(), Watch()
    plain, _ = exact(watches[0]), eager(watches[1])
    places = places_near(watches[0].inputs, watches[1].inputs)
    if not places:
        return plain, 0
    largest = max(float(item.abs().max()) for item in plain.values())

    def line(gradients: Gradients) -> torch.Tensor:
        parts = []
        for name, item in plain.items():
            size = max(float(item.abs().max()), 1e-3 * largest) or 1.0
            step = 1 + item.numel() // MOST_READ
            parts.append((gradients[name] - item).flatten()[::step] / size)
        return torch.cat(parts)

    changes = torch.stack([line(exact(Watch([place]))) for place in places], 1)
    shares = torch.linalg.lstsq(changes, line(found)[:, None], driver="gelsd").solution[:, 0]
    moved = [place for place, share in zip(places, shares.tolist(), strict=True) if share > 0.5]
    return (exact(Watch(moved)), len(moved)) if moved else (plain, 0)
