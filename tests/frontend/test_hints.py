"""What is often meant and not written: casts, names of PyTorch's, tensors shared by a loop."""

import warnings

import numpy as np
import pytest

import mgn
from mgn import ops
from mgn.diagnostics import DiagnosticsError, MgnWarning
from mgn.runtime.errors import InputError


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("x + i", "different element types f32 and i32; use cast(i, f32)"),
        ("i + x", "different element types i32 and f32; use cast(i, f32)"),
        ("x * h", "different element types f32 and f16; use cast(h, f32)"),
        ("(x + x) * (i * i)", "use cast(x, f32), where x is that in i32"),
        ("(i * i) * (x + x)", "use cast(x, f32), where x is that in i32"),
        ("softmax(x, dim = 1)", "softmax() has no argument 'dim'; did you mean 'axis'?"),
        ("sum(x, keepdim = true)", "sum() has no argument 'keepdim'; did you mean 'keepdims'?"),
        ("cast(x, dtype = f16)", "cast() has no argument 'dtype'; did you mean 'T'?"),
        ("softmax(x, bias = 1)", "softmax() has no argument 'bias'"),
        ("maximum(x, x)", "unknown operation 'maximum'; did you mean 'max'?"),
        ("take(x, i)", "unknown operation 'take'; did you mean 'gather'?"),
        ("ravel(x)", "unknown operation 'ravel'; did you mean 'flatten'?"),
        ("zeros([2])", "unknown operation 'zeros'; did you mean 'full'?"),
        ("nn.relu(x)", "there are no modules; write relu(…)"),
        ("torch.nn.functional.relu(x)", "there are no modules; write relu(…)"),
        ("x.relu()", "there are no methods; write relu(x, …)"),
        ("float(i)", "unknown operation 'float'; write cast(x, f32)"),
        ("x * len(x)", "unknown operation 'len'; x.shape[0] is the size of an axis"),
        ("[k for k in 0..3]", "'for' cannot stand inside '['"),
        ("relu(if true)", "'if' cannot stand inside '('"),
        ("pad(x, [1, 1])", "'padding' must be a list of [low, high] pairs of integers"),
        ("sum(x, axis = 1.0)", "'axis' must be an integer or a list of integers"),
        ("reshape(x, [x, 2])", "'shape' must be a list, each item an integer"),
        ("concat([[x, x]])", "'operands' must be a list of values alone"),
        ("concat([x, none])", "'operands' must be a list of values alone"),
        (
            'einsum("ij->ji", [x])',
            "einsum() takes values, and no list of them; write einsum(equation, a, b, …)",
        ),
    ],
)
def test_an_error_says_what_is_meant(call: str, hint: str) -> None:
    text = f"graph g(x: f32[2, 2], i: i32[2, 2], h: f16[2, 2]) {{ y = {call}\n return y }}"
    with pytest.raises(DiagnosticsError) as found:
        mgn.parse(text).lower()
    (diagnostic,) = found.value.diagnostics
    assert hint in diagnostic.message


@pytest.mark.parametrize(
    ("call", "message", "mended"),
    [
        ("i + 0.5", "; use cast(x, f32) on the other operand", "cast(i, f32) + 0.5"),
        ("clamp(i, 0.5)", "; use cast(x, f32)", "clamp(cast(i, f32), 0.5)"),
        (
            "pad(i, [[1, 1], [0, 0]], 0.5)",
            "; use cast(x, f32)",
            "pad(cast(i, f32), [[1, 1], [0, 0]], 0.5)",
        ),
        ("full([2], 0.5, T = i32)", "; give T = f32", "full([2], 0.5, T = f32)"),
        ("dynamic_slice(x, [0, 0.5], [1, 1])", "", "dynamic_slice(x, [0, 0], [1, 1])"),
    ],
)
def test_what_is_said_of_a_fraction_among_integers_helps(
    call: str, message: str, mended: str
) -> None:
    text = "graph g(x: f32[2, 2], i: i32[2, 2]) {{ return y = {} }}"
    with pytest.raises(DiagnosticsError) as found:
        mgn.parse(text.format(call)).lower()
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.message.endswith(f"0.5 is not an i32{message}")
    mgn.parse(text.format(mended)).lower()


@pytest.mark.parametrize(
    "statement", ["y = relu(x return y", "y = [x for k in 0..3 { x = x }", "y = relu([x] for k"]
)
def test_a_statement_behind_an_open_bracket_is_told_of_the_bracket_alone(statement: str) -> None:
    with pytest.raises(DiagnosticsError) as found:
        mgn.parse(f"graph g(x: f32[2]) {{ {statement}\n return x }}").lower()
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.message.endswith("is never closed")


def test_a_range_of_pythons_is_told_what_a_loop_takes() -> None:
    with pytest.raises(
        DiagnosticsError, match=r"'range'; the numbers from a to b are a\.\.b in a for"
    ):
        mgn.parse("graph g(x: f32[2]) { for k in range(3) { x = x + k }\n return x }").lower()


@pytest.mark.parametrize("body", ["{ }", "{ z = x }"])
def test_the_note_on_a_loops_number_stands_at_the_loop(body: str) -> None:
    with pytest.raises(DiagnosticsError) as found:
        mgn.parse(f"graph g(x: f32[2]) {{\n  for i in 0..3 {body}\n  return y = x + i\n}}").lower()
    (diagnostic,) = found.value.diagnostics
    (note,) = diagnostic.notes
    assert (note.line, note.column) == (2, 3)
    assert note.message.startswith("bound inside a block")


def test_the_builder_names_the_value_to_cast() -> None:
    with pytest.raises(DiagnosticsError, match=r"use cast\(count, f32\)"), mgn.graph("g") as g:
        _ = g.input("count", "i32[2]") + g.input("x", "f32[2]")


SHARED = """graph g(x: f32[2, 2]) {
  for i in 0..3 {
    %s
  }
  return x
}"""


@pytest.mark.parametrize(
    "body",
    [
        "param w: f32[2, 2]\n x = x @ w",
        "state k: f32[2, 2]\n k <- k + x",
        "for j in 0..2 { param w: f32[2, 2]\n x = x @ w }",
    ],
)
def test_one_tensor_for_all_turns_of_a_loop_is_warned_of_once(body: str) -> None:
    with pytest.warns(MgnWarning, match=r"all turns of the loop over '\w' have one") as found:
        mgn.parse(SHARED % body).lower()
    assert len(found) == 1
    assert 'scope "layers.{' in str(found[0].message)


@pytest.mark.parametrize(
    "body",
    [
        'scope "layers.{i}" { param w: f32[2, 2]\n x = x @ w }',
        'param w: f32[2, 2] as "w.{i}"\n x = x @ w',
        "x = x + 1",
    ],
)
def test_tensors_of_their_own_are_not_warned_of(body: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mgn.parse(SHARED % body).lower()
        before = "param w: f32[2, 2]\ngraph g(x: f32[2, 2]) { for i in 0..3 { x = x @ w }\n"
        mgn.parse(before + "return x }").lower()


def test_numbers_of_python_are_scalars() -> None:
    text = """graph g(s: f32, h: f16, i: i32, u: u8, b: bool) {
      return s = s, h = h, i = i, u = u, b = b
    }"""
    exe = mgn.compile(mgn.parse(text))
    found = exe(s=2, h=0.5, i=-3, u=255, b=True)
    assert [found[name] for name in "shiub"] == [2.0, 0.5, -3, 255, True]
    for name, value in (("i", 2.5), ("u", 256), ("u", -1), ("b", 1), ("s", True), ("i", 2**31)):
        given = {"s": 1.0, "h": 1.0, "i": 1, "u": 1, "b": False, name: value}
        with pytest.raises(InputError, match=f"input '{name}' is {value}, which"):
            exe(**given)


def test_rows_with_the_ignored_label_do_not_count() -> None:
    random = np.random.default_rng(0)
    logits = random.standard_normal((5, 7)).astype(np.float32)
    labels = np.array([3, -100, 0, -100, 6], np.int32)
    with mgn.graph("g") as g:
        x, ids = g.input("x", "f32[5, 7]"), g.input("ids", "i32[5]")
        for how in ("mean", "sum", "none"):
            g.output(**{how: ops.cross_entropy(x, ids, reduction=how, ignore_index=-100)})
            logs = ops.log_softmax(x)
            g.output(**{f"nll_{how}": ops.nll(logs, ids, reduction=how, ignore_index=-100)})
    exe = mgn.compile(g.module)
    found = exe(x=logits, ids=labels)
    wide = logits.astype(np.float64)
    logs = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    rows = np.where(labels < 0, 0.0, -logs[range(5), labels.clip(0)])
    for prefix in ("", "nll_"):
        np.testing.assert_allclose(found[f"{prefix}none"], rows, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[f"{prefix}sum"], rows.sum(), rtol=1e-5)
        np.testing.assert_allclose(found[f"{prefix}mean"], rows.sum() / 3, rtol=1e-5)
    nothing = exe(x=logits, ids=np.full(5, -100, np.int32))
    assert np.isnan(nothing["mean"]) and nothing["sum"] == 0
