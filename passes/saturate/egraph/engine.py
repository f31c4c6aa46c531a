"""Saturation: egglog run step by step to the fixpoint, within limits, and its classes read back.

In: an encoded graph and rules. Out: a `SaturatedGraph`: classes with their e-nodes, and what
happened.

Only `egglog.bindings` is used. One step runs all rules once, commutativity and recognition
together. It builds the right sides of the new matches in Python, loads them, and restores
congruence. The run stops when nothing changes, or when time or size is exceeded, and says which.
"""

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mgn.passes.saturate.egraph.compile_rules import (
    PRELUDE,
    CompiledRule,
    Constructor,
    commutes,
    compile_rule,
    constructor_name,
    declare,
)
from mgn.passes.saturate.egraph.declared import declared, execute
from mgn.passes.saturate.egraph.instantiate import instantiate
from mgn.passes.saturate.egraph.wide_products import (
    ROUNDINGS,
    Joined,
    Product,
    Rounding,
    Sliced,
    WideProducts,
    constant_classes,
)
from mgn.passes.saturate.encoding.bindings import load_bindings
from mgn.passes.saturate.encoding.facts import Facts, NodeFact
from mgn.passes.saturate.rules.rule import Rule, RuleClass, RuleError

GROWTH_LIMIT = 40
"""How many times the original e-nodes an e-graph may hold, and as many matches may be new at once,
before the run stops; small ones get a fixed allowance.
"""
ALLOWANCE = 20_000
RATION = 8
"""How many matches of one rule for each original e-node are looked at, and how many in any case: a
rule with more makes what it matches anew, as associativity does. The others go on without it.
"""
LEAST_RATION = 1_000
MOST_ITERATIONS = 100
"""Steps of a run, of which programs take a dozen: a rule that makes one thing more in each has no
end either.
"""
BUDGETED = 20_000
"""E-nodes of a program for which the time of a run is meant; a larger one has more."""

MOST_WRITTEN = 200
"""Facts that are loaded as text; egglog reads more of them sooner from files."""

PRODUCT: Constructor = ("matmul", 2)
WIDENINGS = 2
"""How often products are put side by side, each time at a fixpoint of the rules."""


class ClassNode(NamedTuple):
    """An e-node as read back: operation, attribute number, type number, operand classes."""

    name: str
    attributes: int
    type: int
    operands: tuple[int, ...]


@dataclass
class SaturatedGraph:
    """The classes of an e-graph, named by their smallest handles, with e-nodes and leaves.
    `layer_copies` layers of the program are copies of one. `limits` says what kept it from the
    fixpoint, and `stopped` which rules had their ration of matches.
    """

    facts: Facts
    nodes: dict[int, list[ClassNode]]
    leaves: dict[int, list[int]]
    class_of: dict[int, int]
    splats: dict[int, int]
    limits: tuple[str, ...]
    iterations: int
    fired: Counter[str]
    program: str = ""
    locations: dict[int, Any] = field(default_factory=dict[int, Any])
    layer_copies: int = 0
    stopped: frozenset[str] = frozenset()

    @property
    def saturated(self) -> bool:
        """Whether the fixpoint was reached: no limit fired."""
        return not self.limits

    @property
    def node_count(self) -> int:
        return sum(map(len, self.nodes.values())) + sum(map(len, self.leaves.values()))

    @property
    def class_count(self) -> int:
        return len(self.nodes.keys() | self.leaves.keys())


@dataclass(frozen=True)
class _Tables:
    """What an e-graph holds at one time: egglog's functions, the handle of each class as egglog
    knows it, and, by handles, e-nodes and leaves with their classes.
    """

    functions: Mapping[str, Any]
    names: Mapping[Any, int]
    nodes: Sequence[tuple[int, ClassNode]]
    leaves: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Application:
    """One match on which a rule acted, in which iteration: the handles of its root and variables,
    and that of its right side.

    Handles from `first` on, below `end`, are the e-nodes and constants that it entered.
    """

    rule: str
    row: tuple[int, ...]
    result: int
    first: int
    end: int
    iteration: int

    @property
    def root(self) -> int:
        """The handle of the value that the left side matched."""
        return self.row[0]


def only_exact(rules: Iterable[Rule]) -> bool:
    """Whether what the rules make equal is so to the bit."""
    return all(rule.equality is RuleClass.EXACT for rule in rules)


def saturate_facts(
    facts: Facts,
    rules: Sequence[Rule],
    time_budget: float = 5.0,
    keep_program: bool = False,
    trail: list[Application] | None = None,
    widen: bool = False,
) -> SaturatedGraph:
    """Runs rules over loaded facts to the fixpoint; with `widen` also `wide_products`.

    The time is the processor's. A `trail` gets what the rules did, in order. RuleError where egglog
    refuses what they equate: values of different types, or constants.
    """
    bindings = load_bindings()
    pace = _Pace(time_budget * max(1.0, len(facts.handle_types) / BUDGETED))
    engine = _Engine(facts, rules, keep_program, trail)
    engine.widenings = WIDENINGS if widen else 0
    try:
        with declared(bindings, engine.declarations()) as engine.egraph:
            return engine.run(pace)
    except bindings.EggSmolError as error:
        acted = ", ".join(engine.acting) or "none"
        raise RuleError(f"values that differ are equated; rules that acted: {acted}") from error


class _Pace:
    """The time that steps take. None can be cut short, so that the next one's is foretold: where
    the last one took longer than the one before, it grows so once more.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.begun = time.thread_time()
        self.deadline = self.begun + budget
        self.last = 0.0

    def fits_another(self) -> bool:
        """Called after a step: whether another one fits into the time that is left."""
        now = time.thread_time()
        before, self.last, self.begun = self.last, now - self.begun, now
        growth = max(1.0, self.last / before) if before else 1.0
        return now + growth * self.last <= self.deadline


class _Engine:
    """One egglog e-graph, which has read the `declarations`, and the facts it was given."""

    egraph: Any

    def __init__(
        self,
        facts: Facts,
        rules: Sequence[Rule],
        keep_program: bool,
        trail: list[Application] | None,
    ) -> None:
        self.facts = facts
        self.exact = only_exact(rules)
        self.waiting = dict(enumerate(rules))
        self.constructors: set[Constructor] = set()
        self.compiled: dict[str, CompiledRule] = {}
        self.log: list[str] | None = [] if keep_program else None
        self.trail = trail
        self.seen: dict[str, set[tuple[int, ...]]] = defaultdict(set)
        self.fired: Counter[str] = Counter()
        self.acting: list[str] = []
        self.iterations = 0
        facts.given = len(facts.handle_types)
        self.largest = facts.given * GROWTH_LIMIT + ALLOWANCE
        self.ration = facts.given * RATION + LEAST_RATION
        self.stopped: dict[str, None] = {}
        self.widenings = 0
        self.wide = WideProducts(facts)

    def declarations(self) -> list[str]:
        """The texts that an e-graph has to have read before the facts are loaded."""
        texts = [PRELUDE, *self._admitted(_constructors(self.facts))]
        if self.log is not None:
            self.log.extend(texts)
        return texts

    def execute(self, text: str) -> list[Any]:
        if self.log is not None:
            self.log.append(text)
        return execute(self.egraph, text)

    def run(self, pace: _Pace) -> SaturatedGraph:
        self._load()
        while True:
            reports = self.execute("(run rewrite 1)")
            self.iterations += 1
            report = reports[0].report
            matched = report.num_matches_per_rule
            self.acting = [name for name in self.compiled if matched.get(name)]
            if sum(matched.values()) > self.largest:
                return self._read(self._tables(), f"{self.largest:,} new matches")
            if self.acting:
                self._act(self.acting)
            loaded = self._load()
            if not loaded and not report.updated:
                tables = self._tables()
                if not self._widen(tables):
                    return self._read(tables)
            if self._is_too_large():
                return self._read(self._tables(), f"{self.largest:,} e-nodes")
            if self.iterations == MOST_ITERATIONS:
                return self._read(self._tables(), f"{MOST_ITERATIONS} iterations")
            if not pace.fits_another():
                return self._read(self._tables(), f"{pace.budget:.3g} s")

    def _is_too_large(self) -> bool:
        return len(self.facts.handle_types) > self.largest

    def _act(self, names: Iterable[str]) -> None:
        functions = self.egraph.freeze().functions
        number, handle = self.egraph.value_to_i64, self._names(functions).__getitem__
        for name in names:
            if name in self.stopped:
                continue
            compiled = self.compiled[name]
            seen, values = self.seen[name], compiled.values
            matches = [row.inputs for row in functions[compiled.relation].rows]
            rows = {(*map(handle, row[:values]), *map(number, row[values:])) for row in matches}
            fresh, left = sorted(rows - seen), self.ration - len(seen)
            if len(fresh) > left:
                self.stopped[name] = None
            for row in fresh[:left]:
                first, unions = len(self.facts.handle_types), len(self.facts.new_unions)
                if self._is_too_large():
                    return
                if instantiate(compiled, row, self.facts):
                    self.fired[name] += 1
                    united = self.facts.new_unions[unions:]
                    result = united[-1][1] if united else row[0]
                    self._note(name, row[:values], result, first, len(self.facts.handle_types))
            seen |= rows

    def _note(self, rule: str, row: tuple[int, ...], result: int, first: int, end: int) -> None:
        if self.trail is not None:
            self.trail.append(Application(rule, row, result, first, end, self.iterations))

    def _admitted(self, constructors: set[Constructor]) -> list[str]:
        """The texts that declare operations that occur now, and the rules that can match from now
        on.
        """
        self.constructors |= constructors
        text = [declare(constructor, self.exact) for constructor in sorted(constructors)]
        for number, rule in list(self.waiting.items()):
            if rule.constructors <= self.constructors:
                self.compiled[rule.name], lines = compile_rule(rule, number, self.facts)
                text.append(lines)
                del self.waiting[number]
        return text

    def _names(self, functions: Mapping[str, Any]) -> dict[Any, int]:
        """The smallest handle of each class."""
        number = self.egraph.value_to_i64
        return {row.inputs[0]: number(row.output) for row in functions["handle"].rows}

    def _tables(self) -> _Tables:
        """What the e-graph holds now."""
        functions = self.egraph.freeze().functions
        number = self.egraph.value_to_i64
        names = self._names(functions)
        nodes: list[tuple[int, ClassNode]] = []
        for name, operation in _operations(functions):
            for row in functions[name].rows:
                attributes, type, *values = row.inputs
                operands = tuple([names[item] for item in values])
                node = ClassNode(operation, number(attributes), number(type), operands)
                nodes.append((names[row.output], node))
        leaves = [(names[row.output], number(row.inputs[1])) for row in functions["leaf"].rows]
        return _Tables(functions, names, nodes, leaves)

    def _widen(self, tables: _Tables) -> bool:
        """At a fixpoint, puts products side by side; whether that gave anything new."""
        if not self.widenings or PRODUCT not in self.constructors:
            return False
        self.widenings -= 1
        products: list[Product] = []
        sums: dict[int, list[tuple[int, int]]] = defaultdict(list)
        roundings: dict[int, list[Rounding]] = defaultdict(list)
        joined: list[Joined] = []
        slices: list[Sliced] = []
        below: dict[int, list[int]] = defaultdict(list)
        for result, (operation, attributes, _, operands) in tables.nodes:
            if operation == PRODUCT[0]:
                left, right = operands
                products.append(Product(result, left, right, attributes))
            elif operation == "add":
                sums[operands[0]].append((result, operands[1]))
                below[result] += operands
            elif operation == "reshape":
                below[result] += operands
            elif operation == "slice":
                slices.append(Sliced(attributes, operands[0]))
            elif operation == "concat":
                joined.append(Joined(result, attributes, operands))
            elif operation in ROUNDINGS:
                roundings[result].append(Rounding(operation, attributes, operands[0]))
        things = self.facts.leaves.things
        leaves = {result for result, leaf in tables.leaves if things[leaf].prepares}
        constant = constant_classes(
            leaves, ((result, node.operands) for result, node in tables.nodes)
        )
        if not self.wide.enter(products, leaves, constant, sums, roundings, joined, slices, below):
            return False
        for step in self.wide.steps:
            self.fired[step[0]] += 1
            self._note(*step)
        return self._load()

    def _load(self) -> bool:
        """Loads what is new. False where nothing was."""
        facts = self.facts
        present = _constructors(facts)
        if present - self.constructors:
            for text in self._admitted(present - self.constructors):
                self.execute(text)
        tables: dict[str, list[str]] = defaultdict(list)
        for handle, type, key in facts.new_leaves:
            tables["in_leaf"].append(f"{handle}\t{type}\t{key}\n")
        inputs = {item: tables[f"in-{constructor_name(item)}"] for item in sorted(present)}
        for handle, (name, attributes, type, operands) in facts.new_nodes:
            values = "".join([f"\t{item}" for item in operands])
            line = f"{handle}\t{attributes}\t{type}{values}\n"
            inputs[name, len(operands)].append(line)
        for relation, pairs in (("in_splat", facts.new_splats), ("in_union", facts.new_unions)):
            for left, right in pairs:
                tables[relation].append(f"{left}\t{right}\n")
        for pending in (facts.new_leaves, facts.new_nodes, facts.new_splats, facts.new_unions):
            pending.clear()
        if not tables:
            return False
        few = sum(map(len, tables.values())) <= MOST_WRITTEN
        written = [
            f"({relation} {line.strip()})".replace("\t", " ")
            for relation, lines in (tables.items() if few or self.log is not None else ())
            for line in lines
        ]
        if self.log is not None:
            self.log.extend((*written, "(run load 1)"))
        place = nullcontext() if few else tempfile.TemporaryDirectory(prefix="mgn-egraph-")
        with place as folder:
            reads = written if folder is None else list(_in_files(tables, Path(folder)))
            program = "\n".join((*reads, "(run load 1)"))
            execute(self.egraph, program)
        return True

    def _read(self, tables: _Tables, *limits: str) -> SaturatedGraph:
        functions, names, number = tables.functions, tables.names, self.egraph.value_to_i64
        class_of = {number(row.inputs[0]): names[row.output] for row in functions["N"].rows}
        nodes: dict[int, list[ClassNode]] = defaultdict(list)
        for key, node in tables.nodes:
            nodes[key].append(node)
        leaves: dict[int, list[int]] = defaultdict(list)
        for key, leaf in tables.leaves:
            leaves[key].append(leaf)
        given = {
            (*fact[:3], tuple([class_of[item] for item in fact.operands]))
            for fact in self.facts.handles
            if isinstance(fact, NodeFact)
        }
        splats = {names[row.inputs[0]]: number(row.output) for row in functions["splat"].rows}
        locations: dict[int, Any] = {}
        for handle in sorted(self.facts.locations):
            locations.setdefault(class_of[handle], self.facts.locations[handle])
        return SaturatedGraph(
            self.facts,
            {
                key: sorted(nodes[key], key=lambda node: (node not in given, _order(node)))
                for key in sorted(nodes)
            },
            {key: sorted(leaves[key]) for key in sorted(leaves)},
            class_of,
            splats,
            (*limits, *(f"{self.ration:,} matches of {name}" for name in self.stopped)),
            self.iterations,
            self.fired + pairs_commuted(nodes, self.exact),
            "\n".join(self.log or ()),
            locations,
            stopped=frozenset(self.stopped),
        )


def _constructors(facts: Facts) -> set[Constructor]:
    """The operations of the e-nodes that are not loaded yet."""
    return {(fact.name, len(fact.operands)) for _, fact in facts.new_nodes}


def _in_files(tables: Mapping[str, list[str]], folder: Path) -> Iterator[str]:
    """Writes each table into a file. Out: the commands that read them."""
    for relation, lines in tables.items():
        file = folder / f"{relation}.tsv"
        file.write_text("".join(lines))
        yield f'(input {relation} "{file}")'


def pairs_commuted(nodes: Mapping[int, Iterable[ClassNode]], exact: bool) -> Counter[str]:
    """How many pairs of e-nodes there are that are one but for the order of their two operands."""
    pairs = Counter(
        node.name
        for found in nodes.values()
        for node in found
        if len(node.operands) == 2 and node.operands[0] < node.operands[1]
    )
    return Counter(
        {f"commutes {name}": count for name, count in pairs.items() if commutes((name, 2), exact)}
    )


def _operations(functions: Any) -> Iterator[tuple[str, str]]:
    """The tables of e-nodes, each with the operation whose e-nodes it holds."""
    for name, function in functions.items():
        operation, _, arity = name.rpartition("_")
        if function.output_sort == "T" and arity.isdecimal():
            yield name, operation


def _order(node: ClassNode) -> tuple[str, int, int, tuple[int, ...]]:
    return node.name, node.attributes, node.type, node.operands
