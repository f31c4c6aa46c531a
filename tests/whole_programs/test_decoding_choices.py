"""A decoding step on a GPU: attention finds queries, keys and values where they lie, and what is
small is done by each resident work-group for itself.
"""

import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.plan import ProgramOp
from mgn.dialects.plan.resident import EVERYWHERE
from mgn.driver.compilation import compile_graph

DECODER = """
graph decode(x: f32[1, 1, 576]) {
  state position: i32[]
  state keys: f32[3, 512, 64]
  state values: f32[3, 512, 64]
  param w: f32[960, 576] = normal(std = 0.05)
  param o: f32[576, 576] = normal(std = 0.05)
  qkv = x @ w.T
  q = rope(qkv[:, :, 0:576], head_dim = 64, offset = position)
  k = rope(qkv[:, :, 576:768], head_dim = 64, offset = position)
  keys <- dynamic_update_slice(keys, reshape(k, [3, 1, 64]), [0, position, 0])
  values <- dynamic_update_slice(values, reshape(qkv[:, :, 768:960], [3, 1, 64]), [0, position, 0])
  seen = reshape(iota([512], axis = 0), [1, 512]) <= position
  k = reshape(transpose(keys, [1, 0, 2]), [1, 512, 192])
  v = reshape(transpose(values, [1, 0, 2]), [1, 512, 192])
  a = attention(q, k, v, where(seen, 0.0, -inf), heads = 9, kv_heads = 3)
  position <- position + 1
  return y = x + a @ o.T
}
"""


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    found = mgn.parse(DECODER).lower()
    kernels: list[str] = []

    def note(name: str, made: ModuleOp) -> None:
        if name == "saturate":
            (graph,) = graphs_of(made)
            kernels.extend(op.kind.data for op in graph.block.ops if isinstance(op, FusedKernelOp))

    compile_graph(found, DEVICES["nvidia-h200"], note)
    found.kinds = kernels  # type: ignore[attr-defined]
    return found


def test_attention_reads_its_cache_and_its_queries_where_they_lie(module: ModuleOp) -> None:
    """Neither of its kernels stands beside a copy, and each state is updated in place before."""
    names = [str(kind) for kind in module.kinds]  # type: ignore[attr-defined]
    assert names.count(KernelKind.ATTENTION) == 1
    assert names.count(KernelKind.UPDATE) == 2
    (program,) = [op for op in module.body.block.ops if isinstance(op, ProgramOp)]
    launched = [stage.kernel_name for op in program.residents for stage in op.stages]
    attention = next(n for n, name in enumerate(launched) if name.startswith("attention"))
    assert sum(name.startswith("update") for name in launched[:attention]) == 2
    assert not any(name.startswith("pointwise") for name in launched[:attention])


def test_updates_of_a_cache_by_a_row_have_no_barrier_behind_them(module: ModuleOp) -> None:
    (program,) = [op for op in module.body.block.ops if isinstance(op, ProgramOp)]
    spans = [span for op in program.residents for span in op.spans]
    (own,) = [span for span in spans if any("attention" in item.kernel_name for item in span)]
    assert [item.kernel_name.split("_")[0] for item in own] == ["update", "update", "attention"]
    assert [EVERYWHERE in item.attributes for item in own] == [True, True, False]
