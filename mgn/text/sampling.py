"""How the next token is chosen, as a graph that runs where the logits lie.

In: logits on the device, and `Sampling`. Out: a token on the device; only its number crosses to the
host. The order is that of the `transformers` library: penalty, temperature, top-k, top-p.

    x = where(seen > 0, where(x > 0, x / penalty, x * penalty), x) / temperature
    values, ids = topk(x, k)
    kept = where(cumsum(softmax(values)) - softmax(values) < top_p, values, -inf)
    token = ids[categorical(kept)]
    number = where(max(x) > -inf, token, -1)
"""

from dataclasses import dataclass, fields
from typing import Any

from mgn import ops
from mgn.builder import GraphBuilder, Value, graph
from mgn.codegen.launch_plan import BufferPlan
from mgn.diagnostics import MgnError, WrongType, argument_name
from mgn.runtime.host_arrays import spelling

LEAST, MOST = 1e-6, 1e6
"""What logits can be divided by: quotients stay finite."""

NO_TOKEN = -1
"""The number of no token."""

RANGE = f"a number from {LEAST:g} to {MOST:g}"


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen. At a temperature of 0 it is the one with the largest logit.

    `top_k` keeps that many of the largest logits, 0 all; `top_p` the fewest whose probabilities
    come to it; `repetition_penalty` divides positive logits of the tokens that there were, and
    multiplies negative ones.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for item in fields(self):
            value, wanted = getattr(self, item.name), (int,) if item.type is int else (int, float)
            if isinstance(value, bool) or not isinstance(value, wanted):
                raise WrongType(f"{item.name} takes a number, not {value!r:.80}")
        limits = {
            "temperature": (
                not self.temperature or _is_in_range(self.temperature),
                f"0, or {RANGE}",
            ),
            "top_k": (self.top_k >= 0, "a number of at least 0"),
            "top_p": (0 < self.top_p <= 1, "a number above 0, 1 at most"),
            "repetition_penalty": (_is_in_range(self.repetition_penalty), RANGE),
            "seed": (0 <= self.seed < 1 << 64, "a number from 0 to 2**64 - 1"),
        }
        for name, (fits, wanted) in limits.items():
            if not fits:
                given = f"{getattr(self, name)!r:.80}"
                raise MgnError(f"{argument_name(name)} takes {wanted}, not {given}")

    @property
    def draws(self) -> bool:
        """Whether chance has a say."""
        return self.temperature > 0

    @property
    def penalises(self) -> bool:
        """Whether the tokens that there were have a say."""
        return self.repetition_penalty != 1

    @property
    def is_plain(self) -> bool:
        """Whether the token is the one with the largest logit."""
        return not self.draws and not self.penalises

    @property
    def numbers(self) -> dict[str, float]:
        """The inputs of the graph that are numbers: another value is no other graph."""
        found = {"penalty": self.repetition_penalty} if self.penalises else {}
        if self.draws:
            found["temperature"] = self.temperature
            found |= {"top_p": self.top_p} if self.top_p < 1 else {}
        return found

    @property
    def form(self) -> tuple[Any, ...]:
        """What the graph depends on."""
        return (self.draws, self.penalises, self.draws and self.top_k, *self.numbers)


def _is_in_range(divisor: float) -> bool:
    return LEAST <= divisor <= MOST


def sampling_graph(
    sampling: Sampling, logits: BufferPlan, token: BufferPlan, has_row: bool
) -> GraphBuilder:
    """The graph that chooses a token by the last row of logits, or by that which `row` counts.

    `token` is what the model goes on from, `number` what the host reads: `NO_TOKEN` where no class
    can be chosen, since a logit is NaN or all are -inf. With a repetition penalty, `seen` is 1 at
    the tokens that there were, going in and coming out.
    """
    classes = logits.shape[-1]
    with graph("sample") as g:
        x = g.input("logits", spelling(logits.element, logits.shape))
        rows = ops.reshape(x, [-1, classes])
        row = g.input("row", "i32[]") if has_row else rows.shape[0] - 1
        x = ops.cast(ops.reshape(ops.dynamic_slice(rows, [row, 0], [1, classes]), [classes]), "f32")
        numbers = {name: g.input(name, "f32[]") for name in sampling.numbers}
        seen = g.input("seen", f"f32[{classes}]") if sampling.penalises else None
        if seen is not None:
            penalty = numbers["penalty"]
            x = ops.where(ops.gt(seen, 0.0), ops.where(ops.gt(x, 0.0), x / penalty, x * penalty), x)
        chosen = _drawn(x, sampling, numbers) if sampling.draws else ops.argmax(x, axis=-1)
        largest = ops.reshape(ops.max_reduce(x, axis=-1, keepdims=True), [])
        results = {
            "token": ops.cast(ops.reshape(chosen, list(token.shape)), token.element),
            "number": ops.where(ops.gt(largest, float("-inf")), chosen, NO_TOKEN),
        }
        if seen is not None:
            results["seen"] = ops.max(seen, ops.reshape(ops.one_hot(chosen, classes), [classes]))
        g.output(**results)
    return g


def _drawn(x: Value, sampling: Sampling, numbers: dict[str, Value]) -> Value:
    """A class drawn from a row of logits."""
    classes = x.shape[-1]
    x = x / numbers["temperature"]
    kept = min(sampling.top_k or classes, classes)
    if kept == classes and "top_p" not in numbers:
        return ops.categorical(x)
    values, ids = ops.topk(x, kept)
    if "top_p" in numbers:
        share = ops.softmax(values, axis=-1)
        values = ops.where(
            ops.lt(ops.cumsum(share, axis=-1) - share, numbers["top_p"]), values, float("-inf")
        )
    place = ops.reshape(ops.categorical(values), [1])
    return ops.reshape(ops.take_along_axis(ids, place, axis=0), [])
