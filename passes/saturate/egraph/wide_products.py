"""Products of one left operand with several parameters, as slices of one wide product; and products
with a parameter whose halves are taken, with it turned.

Before, where q and k depend on parameters alone:

    matmul(x, q)                      matmul(x, k)

After, each equal to what it was, for the price to decide:

    slice(matmul(x, concat(q, k)))    slice(matmul(x, concat(q, k)))

and, where each product has a bias of its own, the same with all biases in one addition. Where the
program has the products side by side, they are the wide product as it is:

    concat(matmul(x, q), matmul(x, k))        matmul(x, concat(q, k))

A gated layer takes both halves of a product's columns. Its parameter is turned, for a kernel in
which halves meet to read rows of it:

    slice(matmul(x, w) + b)                   slice(matmul(x, transpose(w), transpose_b=True) + b)

`concat(q, k)` is then a derived parameter, and so is its transpose. Weights that are each rounded
are also rounded as one, so that a matrix unit sees it. A rule of the table has one root; this one
has as many as there are products, and acts once on all of them. A device may add up a product of
another shape in another order: like the rows of `products.py` it reassociates.

In: an e-graph's products, and which values are parameters' alone. Out: new e-nodes and unions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mgn.dialects.fusion.product_bodies import takes_half
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.passes.saturate.encoding.encode import Encoder
from mgn.passes.saturate.encoding.facts import Facts
from mgn.passes.saturate.rules.rule import Rule, RuleClass

_OF_WIDE = "matmul(x, concat(v, w), transpose_a=M, transpose_b=N)"
WIDE_PRODUCTS = (
    Rule(
        "wide-product",
        "matmul(x, w, transpose_a=M, transpose_b=N)",
        f"slice({_OF_WIDE}, starts=S, stops=E)",
        RuleClass.REASSOCIATES,
        "products of one x with parameters v and w are columns of one product",
    ),
    Rule(
        "wide-product-with-biases",
        "add(matmul(x, w, transpose_a=M, transpose_b=N), b)",
        f"slice(add({_OF_WIDE}, concat(a, b)), starts=S, stops=E)",
        RuleClass.REASSOCIATES,
        "products of one x with parameters v and w, and their biases, are columns of one product",
    ),
    Rule(
        "joined-products",
        "concat([matmul(x, v, transpose_a=M, transpose_b=N), "
        "matmul(x, w, transpose_a=M, transpose_b=N)], axis=A)",
        _OF_WIDE,
        RuleClass.REASSOCIATES,
        "products of one x with parameters v and w, side by side, are one product",
    ),
    Rule(
        "halved-product",
        "matmul(x, w, transpose_a=M, transpose_b=N)",
        "matmul(x, transpose(w, perm=P), transpose_a=M, transpose_b=not N)",
        RuleClass.REASSOCIATES,
        "the columns of a parameter w, whose halves are taken, as rows",
    ),
)
"""What this file does, as reports show it; a row's right side cannot say how many there are."""

NOTHING: Mapping[int, Sequence[int]] = {}

MOST = 16
"""Products that are put side by side at most."""

ROUNDINGS = frozenset({"round_tf32", "cast"})
"""Operations of one element each: of values side by side, they are those of the values."""


@dataclass(frozen=True)
class Product:
    """An e-node `matmul(left, right)`, by handles; `attributes` numbers its transposes."""

    result: int
    left: int
    right: int
    attributes: int


def constant_classes(
    leaves: Iterable[int], nodes: Iterable[tuple[int, tuple[int, ...]]]
) -> set[int]:
    """The classes that `leaves` alone decide through some e-node: (class, operands) each.

    Most classes have a greater number than their operands, so that few rounds find all.
    """
    found = set(leaves)
    left, before = sorted(nodes), -1
    while len(found) > before:
        before = len(found)
        waiting: list[tuple[int, tuple[int, ...]]] = []
        for node in left:
            if found.issuperset(node[1]):
                found.add(node[0])
            elif node[0] not in found:
                waiting.append(node)
        left = waiting
    return found


@dataclass(frozen=True)
class Joined:
    """An e-node `concat(operands)`, by handles."""

    result: int
    attributes: int
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Sliced:
    """An e-node `slice(operand)`, by handles."""

    attributes: int
    operand: int


@dataclass(frozen=True)
class Column:
    """A product that may stand beside others, and the bias that is added to it, if any."""

    product: Product
    bias: int | None = None


@dataclass(frozen=True)
class Rounding:
    """An e-node of `ROUNDINGS`, by handles."""

    operation: str
    attributes: int
    operand: int


@dataclass
class WideProducts:
    """Groups of products that were entered.

    Only handles that the facts were `given` take part: the columns of what rules made of a wide
    product need not be put side by side again.

    `steps` lists what was done the last time: a rule's name, the handles of its root and variables,
    that of the slice, and the first and past the last of those that it entered.
    """

    facts: Facts
    steps: list[tuple[str, tuple[int, ...], int, int, int]] = field(
        default_factory=list[tuple[str, tuple[int, ...], int, int, int]]
    )
    leaves: set[int] = field(default_factory=set[int])
    constant: set[int] = field(default_factory=set[int])
    sums: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, list[tuple[int, int]]])
    roundings: dict[int, list[Rounding]] = field(default_factory=dict[int, list[Rounding]])
    seen: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])

    def enter(
        self,
        products: Iterable[Product],
        leaves: set[int],
        constant: set[int],
        sums: dict[int, list[tuple[int, int]]],
        roundings: dict[int, list[Rounding]],
        joined: Sequence[Joined] = (),
        slices: Sequence[Sliced] = (),
        below: Mapping[int, Sequence[int]] = NOTHING,
    ) -> bool:
        """Enters what has not been entered; whether there was anything.

        `leaves` holds parameters and constants, `constant` what they alone decide; `sums`, for a
        class, the classes that are its sum with another, and that other; `roundings`, for a class,
        what rounds another value to it; `joined` are values side by side, `slices` parts of
        values; `below` has, for a class, the operands of its sums and reshapes.
        """
        self.leaves, self.constant, self.sums = leaves, constant, sums
        self.roundings = roundings
        groups: dict[object, dict[int, Product]] = {}
        taking_part: list[Product] = []
        for item in sorted(products, key=lambda item: (item.result, item.right)):
            key = self._key(item)
            if key is not None and item.right < self.facts.given:
                groups.setdefault(key, {}).setdefault(item.result, item)
                taking_part.append(item)
        self.steps.clear()
        simplest = sorted(groups.values(), key=lambda group: -len(self._parameters(group)))
        for members in simplest:
            self._group(list(members.values()))
        columns = self._columns(groups) if joined else {}
        for item in sorted(joined, key=lambda item: item.result):
            self._join(item, columns)
        halved = self._halved(slices, below)
        for item in taking_part:
            if item.result in halved and self._has_parameter(item):
                self._turn_halved(item)
        return bool(self.steps)

    def _halved(self, slices: Sequence[Sliced], below: Mapping[int, Sequence[int]]) -> set[int]:
        """The classes of which a half of the columns is taken, perhaps with a bias, in any shape
        that keeps the columns.
        """
        types = self.facts.handle_types
        waiting = [
            item.operand
            for item in slices
            if takes_half(types[item.operand].get_shape(), self._decoded("slice", item.attributes))
        ]
        found: set[int] = set()
        while waiting:
            one = waiting.pop()
            if one in found:
                continue
            found.add(one)
            columns = types[one].get_shape()[-1:]
            waiting += [
                item for item in below.get(one, ()) if types[item].get_shape()[-1:] == columns
            ]
        return found

    def _turn_halved(self, item: Product) -> None:
        """Enters a product whose halves are taken with its parameter turned."""
        name = (item.result, item.left, item.right)
        if self._values(item)["transpose_b"] or name in self.seen:
            return
        self.seen.add(name)
        start = len(self.facts.handle_types)
        turned = self._turn(item.result, item, item.right, self.roundings.get(item.right, ()))
        end = len(self.facts.handle_types)
        self.steps.append((WIDE_PRODUCTS[3].name, name, turned, start, end))

    def _has_parameter(self, item: Product) -> bool:
        """Whether parameters decide the right operand of a product, and not the left one."""
        return item.right in self.constant and item.left not in self.constant

    def _parameters(self, group: Mapping[int, Product]) -> list[int]:
        """The right operands that are parameters as they stand, not turned or computed."""
        return [item.right for item in group.values() if item.right in self.leaves]

    def _key(self, item: Product) -> object:
        """What products have in common that can be one; None for one that cannot take part."""
        right = list(self.facts.handle_types[item.right].get_shape())
        if len(right) < 2:
            return None
        right[self._axis(item)] = 0
        element = self.facts.handle_types[item.result].get_element_type()
        return item.left, item.attributes, tuple(right), element

    def _axis(self, item: Product) -> int:
        """Which axis of the right operand runs along the columns of the result."""
        return -2 if self._values(item)["transpose_b"] else -1

    def _values(self, item: Product) -> Mapping[str, Any]:
        return self._decoded("matmul", item.attributes)

    def _decoded(self, operation: str, attributes: int) -> Mapping[str, Any]:
        spec = OPERATIONS[operation]
        stored = dict(self.facts.properties.things[attributes])
        return {
            attribute.name: attribute.kind.decode(stored[attribute.name])
            for attribute in spec.attributes
            if attribute.name in stored
        }

    def _group(self, members: Sequence[Product]) -> None:
        members = [item for item in members if self._has_parameter(item)]
        for start in range(0, len(members), MOST):
            chosen = tuple(members[start : start + MOST])
            name = (chosen[0].left, *(item.result for item in chosen))
            if len(chosen) > 1 and name not in self.seen:
                self.seen.add(name)
                self._widen(chosen)

    def _join(self, item: Joined, columns: Mapping[int, Mapping[object, Column]]) -> None:
        """Enters the product, with its bias, that the columns of several are, side by side."""
        rank = len(self.facts.handle_types[item.result].get_shape())
        along_columns = self._decoded("concat", item.attributes)["axis"] == rank - 1
        if not along_columns or (item.result,) in self.seen:
            return
        found = [columns.get(operand, {}) for operand in item.operands]
        for key in found[0]:
            if all(key in other for other in found):
                parts = [each[key] for each in found]
                biases = [part.bias for part in parts if part.bias is not None]
                self._join_products(item.result, [part.product for part in parts], biases)
                return

    def _columns(
        self, groups: Mapping[object, Mapping[int, Product]]
    ) -> dict[int, dict[object, Column]]:
        """The products with parameters, and their sums with a bias, by handle, then by what they
        share with those that they can stand beside.
        """
        found: dict[int, dict[object, Column]] = defaultdict(dict)
        for key, group in groups.items():
            for result, product in group.items():
                if not self._has_parameter(product):
                    continue
                found[result][key, "plain"] = Column(product)
                bias = self._bias(result)
                if bias is not None:
                    found[bias[0]][key, "biased"] = Column(product, bias[1])
        return found

    def _join_products(self, result: int, members: Sequence[Product], biases: list[int]) -> None:
        """Enters the product of members in their order, which is a result that is there."""
        self.seen.add((result,))
        start = len(self.facts.handle_types)
        wide = self._side_by_side(members)
        if biases:
            wide = self._operation("add", [wide, self._operation("concat", biases, axis=0)])
        self.facts.union(result, wide)
        row = (result, members[0].left, *(item.right for item in members[:2]))
        end = len(self.facts.handle_types)
        self.steps.append((WIDE_PRODUCTS[2].name, row, wide, start, end))

    def _side_by_side(self, members: Sequence[Product]) -> int:
        """The product with all right operands in one."""
        first = members[0]
        axis = self._axis(first) + len(self.facts.handle_types[first.right].get_shape())
        weight = self._operation("concat", [item.right for item in members], axis=axis)
        roundings = list(self._round_as_one(weight, [item.right for item in members], axis))
        wide = self._operation("matmul", [first.left, weight], **self._values(first))
        self._turn(wide, first, weight, roundings)
        return wide

    def _widen(self, members: Sequence[Product]) -> None:
        start = len(self.facts.handle_types)
        wide = self._side_by_side(members)
        plain, biased, *_ = WIDE_PRODUCTS
        rows = [(item.result, item.left, item.right) for item in members]
        self._slices(wide, plain.name, rows, start)
        sums = [self._bias(item.result) for item in members]
        found = [item for item in sums if item is not None]
        if len(found) == len(members):
            start = len(self.facts.handle_types)
            bias = self._operation("concat", [other for _, other in found], axis=0)
            total = self._operation("add", [wide, bias])
            ends = zip(rows, found, strict=True)
            added = [(result, x, w, other) for (_, x, w), (result, other) in ends]
            self._slices(total, biased.name, added, start)

    def _turn(self, wide: int, first: Product, weight: int, roundings: Sequence[Rounding]) -> int:
        """Enters the product, and gives it, with weights that lie the other way: their rows
        together, as a CPU takes them, or their columns, as a kernel does in which halves of a
        product meet. The weight is what its roundings give, so that the turned one is rounded too.
        """
        rank = len(self.facts.handle_types[weight].get_shape())
        perm = [*range(rank - 2), rank - 1, rank - 2]
        turned = self._operation("transpose", [weight], perm=perm)
        for item in roundings if not self._values(first)["transpose_b"] else ():
            values = self._decoded(item.operation, item.attributes)
            inner = self._operation("transpose", [item.operand], perm=perm)
            self.facts.union(turned, self._operation(item.operation, [inner], **values))
        values = dict(self._values(first))
        values["transpose_b"] = not values["transpose_b"]
        product = self._operation("matmul", [first.left, turned], **values)
        self.facts.union(wide, product)
        return product

    def _round_as_one(self, weight: int, parts: Sequence[int], axis: int) -> Iterator[Rounding]:
        """Enters the rounding of values side by side, where all parts are rounded alike."""
        for first in self.roundings.get(parts[0], ()):
            inner = [self._rounded_like(part, first) for part in parts]
            operands = [operand for operand in inner if operand is not None]
            if len(operands) == len(parts):
                joined = self._operation("concat", operands, axis=axis)
                values = self._decoded(first.operation, first.attributes)
                self.facts.union(weight, self._operation(first.operation, [joined], **values))
                yield replace(first, operand=joined)

    def _rounded_like(self, part: int, first: Rounding) -> int | None:
        """What is rounded to `part` as `first` does it."""
        element = self.facts.handle_types[first.operand].get_element_type()
        for item in self.roundings.get(part, ()):
            same = (item.operation, item.attributes) == (first.operation, first.attributes)
            if same and self.facts.handle_types[item.operand].get_element_type() == element:
                return item.operand
        return None

    def _bias(self, result: int) -> tuple[int, int] | None:
        """A sum of a product with one number a column, which parameters decide."""
        columns = self.facts.handle_types[result].get_shape()[-1]
        for total, other in sorted(self.sums.get(result, ())):
            type = self.facts.handle_types[other]
            same = self.facts.handle_types[total] == self.facts.handle_types[result]
            if type.get_shape() == (columns,) and same and other in self.constant:
                return total, other
        return None

    def _slices(self, wide: int, rule: str, rows: Sequence[tuple[int, ...]], entered: int) -> None:
        """Notes that the roots of matches are the columns of a wide value, one after the other."""
        shape = self.facts.handle_types[wide].get_shape()
        start = 0
        for row in rows:
            stop = start + self.facts.handle_types[row[0]].get_shape()[-1]
            part = self._operation(
                "slice",
                [wide],
                starts=[*(0 for _ in shape[:-1]), start],
                stops=[*shape[:-1], stop],
                steps=[1] * len(shape),
            )
            self.facts.union(row[0], part)
            end = len(self.facts.handle_types)
            self.steps.append((rule, row, part, entered, end))
            start, entered = stop, end

    def _operation(self, name: str, operands: Sequence[int], **values: Any) -> int:
        location = self.facts.locations.get(operands[0])
        spec = OPERATIONS[name]
        defaults = {item.name: item.default for item in spec.attributes}
        return Encoder(self.facts).enter(spec, operands, {**defaults, **values}, location)
