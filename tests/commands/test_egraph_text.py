"""`mgn-opt -t egglog` and `-t egraph-json`: other tools see the e-graph that saturate saw."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue

from mgn.commands.printing.egraph_text import egglog_program, egraph_json
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp, ReadOp
from mgn.passes.saturate.egraph.engine import SaturatedGraph, saturate_facts
from mgn.passes.saturate.encoding.bindings import load_bindings
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.table import DEFAULT_CLASSES, rules_of
from mgn.passes.saturate.saturate import literals_of
from tests.passes.saturate.saturate_programs import build_graph, f32
from tests.passes.saturate.saturate_zoo import SMALL

Build = Callable[[], GraphOp]


def saturated(graph: GraphOp) -> SaturatedGraph:
    """What saturate makes of a graph."""
    rules = rules_of(DEFAULT_CLASSES)
    return saturate_facts(encode_graph(graph, literals_of(rules)).facts, rules, 60.0, widen=True)


def siblings() -> GraphOp:
    """Two products of one input with parameters, which saturate puts side by side."""

    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        reads = [ReadOp(name, f32(64, 64)) for name in ("v", "w")]
        for read in reads:
            b.insert(read)
        return [b.matmul(x, read.result) for read in reads]

    return build_graph(body, f32(8, 64))


GRAPHS: dict[str, Build] = {**SMALL, "siblings": siblings}


def replayed(text: str) -> Any:
    """The frozen tables of a fresh e-graph after a program, which raises where a check fails."""
    egraph = load_bindings().EGraph()
    lines = text.splitlines()
    for start in range(0, len(lines), 300):
        egraph.run_program(*egraph.parse_program("\n".join(lines[start : start + 300])))
    return egraph


@pytest.mark.parametrize("build", GRAPHS.values(), ids=GRAPHS.keys())
def test_egglog_alone_comes_to_the_same_classes_and_nodes(build: Build) -> None:
    graph = build()
    wanted = saturated(graph.clone())
    assert wanted.saturated
    egraph = replayed(egglog_program(ModuleOp([graph])))
    number = egraph.value_to_i64
    functions = egraph.freeze().functions
    handles = [(number(row.inputs[0]), row.output) for row in functions["N"].rows]
    names: dict[Any, int] = {}
    for handle, value in sorted(handles, key=lambda item: item[0]):
        names.setdefault(value, handle)
    assert {handle: names[value] for handle, value in handles} == wanted.class_of
    rows = [
        (name.rpartition("_")[0], names[row.output], [names[x] for x in row.inputs[2:]])
        for name, function in functions.items()
        if function.output_sort == "T" and re.fullmatch(r"\w+_\d+", name)
        for row in function.rows
    ]
    nodes = [
        (node.name, key, list(node.operands))
        for key, members in wanted.nodes.items()
        for node in members
    ]
    assert sorted(rows) == sorted(nodes)


def test_products_side_by_side_are_in_the_program() -> None:
    assert re.search(r"\(in-concat_2 \d", egglog_program(ModuleOp([siblings()])))


def test_a_program_that_was_tampered_with_fails_its_checks() -> None:
    text = egglog_program(ModuleOp([SMALL["mlp"]()]))
    union = re.search(r"\(in_union \d+ \d+\)\n", text)
    assert union is not None
    errors = load_bindings().EggSmolError
    with pytest.raises(errors):
        replayed(text.replace(union.group(), "", 1))


def test_the_program_says_what_its_numbers_stand_for() -> None:
    text = egglog_program(ModuleOp([SMALL["gated"]()]))
    for pattern in (
        r"; type \d+ = f32\[64, 128\]",
        r"; handle 0 = input x0",
        r"; handle \d+ = silu : f32\[64, 256\]",
        r'; output "y0" = handle \d+',
    ):
        assert re.search(pattern, text), pattern


def test_a_name_with_a_new_line_is_no_command() -> None:
    graph = SMALL["mlp"]()
    names = [StringAttr("x\n(fail"), *list(graph.inputs)[1:]]
    graph.properties["inputs"] = ArrayAttr(names)
    text = egglog_program(ModuleOp([graph]))
    assert "; handle 0 = input x\ufffd(fail\n" in text
    replayed(text)


@pytest.mark.parametrize("build", GRAPHS.values(), ids=GRAPHS.keys())
def test_the_json_holds_every_class_and_node(build: Build) -> None:
    graph = build()
    wanted = saturated(graph.clone())
    found = json.loads(egraph_json(ModuleOp([graph])))
    nodes = found["nodes"]
    assert len(nodes) == wanted.node_count
    assert {node["eclass"] for node in nodes.values()} == set(found["class_data"])
    assert len(found["class_data"]) == wanted.class_count
    for node in nodes.values():
        assert all(child in nodes for child in node["children"])
    assert set(found["root_eclasses"]) <= set(found["class_data"])
