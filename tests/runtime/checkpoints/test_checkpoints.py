"""Checkpoints of every kind as parameters: names, float types, files that belong together."""

import json
import mmap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mgn.dialects.block_formats import pack_blocks
from mgn.runtime.checkpoints.load import load_params
from mgn.runtime.checkpoints.opening import open_checkpoint
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.stored_arrays import FLOATS_OF_8_BITS
from mgn.runtime.weights import save_params

VALUES = np.random.default_rng(5).standard_normal((3, 32)).astype(np.float32)
FLOATS = {name: dtype for name, dtype in DTYPES.items() if name in ("f64", "f32", "f16", "bf16")}


def safetensors(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    save_params(path, arrays)
    return path


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_floats_of_any_type_become_those_of_any_other(tmp_path: Path, suffix: str) -> None:
    kinds = FLOATS | FLOATS_OF_8_BITS if suffix == ".safetensors" else FLOATS
    arrays = {name: VALUES.astype(dtype) for name, dtype in kinds.items()}
    path = tmp_path / f"w{suffix}"
    if suffix == ".npz":
        np.savez(path, allow_pickle=False, **arrays)
    else:
        safetensors(path, arrays)
    for element, dtype in FLOATS.items():
        loaded = load_params(path, dict.fromkeys(arrays, (element, (3, 32))))
        for name, array in arrays.items():
            assert loaded[name].dtype == dtype
            assert loaded[name].tobytes() == array.astype(dtype).tobytes()
        told = {(item.source, item.target): item.names for item in loaded.report.conversions}
        assert told == {(name, element): (name,) for name in arrays if name != element}
    for format in ("q8_0", "q4_1"):
        loaded = load_params(path, dict.fromkeys(arrays, (format, (3, 32))))
        for name, array in arrays.items():
            assert np.array_equal(loaded[name], array.astype(np.float32))


def test_the_report_names_what_is_not_used_and_clips_long_lists(tmp_path: Path) -> None:
    arrays = {f"model.{name}": VALUES for name in "wabcdef"}
    path = safetensors(tmp_path / "w.safetensors", arrays)
    loaded = load_params(path, {"w": ("f32", (3, 32))}, r"model\.w=w")
    assert loaded.report.unused == tuple(f"model.{name}" for name in "abcdef")
    assert str(loaded.report).splitlines() == [
        f"1 parameter from {path}, 1 renamed",
        "  not used: 6 ('model.a', 'model.b', 'model.c', 'model.d', …)",
    ]


def test_values_are_rounded_on_their_way_where_that_is_asked_for(tmp_path: Path) -> None:
    path = safetensors(tmp_path / "w.safetensors", {"w": VALUES, "k": np.arange(3)})
    loaded = load_params(path, {"w": ("f32", (3, 32)), "k": ("i64", (3,))}, dtype="bf16")
    assert np.array_equal(loaded["w"], VALUES.astype(ml_dtypes.bfloat16).astype(np.float32))
    assert loaded["k"].dtype == np.int64
    assert str(loaded.report).endswith("  f32 as bf16 as f32: 1 ('w')")
    with pytest.raises(WeightsError, match="dtype is one of f64, f32, f16, bf16, not 'i8'"):
        load_params(path, {}, dtype="i8")


def test_a_number_that_a_type_cannot_hold_is_told_and_an_infinite_one_stays(tmp_path: Path) -> None:
    arrays = {"w": np.array([1.0, -1e6], np.float32), "mask": np.array([-np.inf, 0], np.float32)}
    path = safetensors(tmp_path / "w.safetensors", arrays)
    wanted = {"w": ("f16", (2,)), "mask": ("f16", (2,))}
    loaded = load_params(path, wanted)
    assert loaded["mask"].tolist() == [-np.inf, 0]
    with pytest.raises(WeightsError, match=r"'w' holds 1e\+06, which is too large for float16"):
        loaded["w"]


def test_integers_are_not_floats(tmp_path: Path) -> None:
    path = safetensors(tmp_path / "w.safetensors", {"w": np.arange(3), "v": np.ones(3)})
    with pytest.raises(WeightsError) as error:
        load_params(path, {"w": ("f32", (3,)), "v": ("i32", (3,)), "u": ("q8_0", (32,))})
    assert "'w' has dtype int64, not float32" in str(error.value)
    assert "'v' has dtype float64, not int32" in str(error.value)


@pytest.mark.parametrize(
    ("rename", "name"),
    [
        ({"transformer.h.0.attn.w": "attn"}, "attn"),
        (r"transformer\.(.*)=\1", "h.0.attn.w"),
        (["nothing=x", r"transformer.h.(\d+).(.*)=layers.\1.\2", r"(.*)=other"], "layers.0.attn.w"),
        ((), "transformer.h.0.attn.w"),
    ],
)
def test_names_are_changed_by_a_mapping_or_by_rules(
    tmp_path: Path, rename: dict[str, str] | str | list[str], name: str
) -> None:
    arrays = {"transformer.h.0.attn.w": VALUES, "xtransformer.h": VALUES}
    path = safetensors(tmp_path / "w.safetensors", arrays)
    loaded = load_params(path, {name: ("f32", (3, 32))}, rename)
    assert np.array_equal(loaded[name], VALUES)
    assert loaded.report.renamed == (name not in arrays) and loaded.extra == 1


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ("transformer", "PATTERN=NAME"),
        ("=x", "PATTERN=NAME"),
        ("(=x", r"the rule of renaming '\(=x'"),
        (r"a(.*)=\2", "invalid group reference"),
        ([r"(.*)=w"], "'w' is the name of 'a' and of 'b'"),
    ],
)
def test_a_rule_that_is_none_is_told(tmp_path: Path, rename: str, message: str) -> None:
    path = safetensors(tmp_path / "w.safetensors", {"a": VALUES, "b": VALUES})
    with pytest.raises(WeightsError, match=message):
        load_params(path, {"w": ("f32", (3, 32))}, rename)
    for wrong in (3, [3], {"a": 3}):
        with pytest.raises(TypeError, match="rename"):
            load_params(path, {}, wrong)  # pyright: ignore[reportArgumentType]


def test_a_rule_looks_at_a_name_for_seconds_at_most(tmp_path: Path) -> None:
    path = safetensors(tmp_path / "w.safetensors", {"a" * 60 + "!": VALUES})
    endless = ["(a+)+", "(a|ab)*", r"(\w+\.)*x", "(?:(a*)b?)*?y", "(?!(a+)+)b", "(a+){2,99}"]
    endless += ["(a+){99}", "(?>(a+)+b)", "((a+)+b)++", "(x)?(?(1)(a+)+|b)"]
    many = [".*" * 8 + "b", r"(\w|\w\w){0,63}b", "(a?){30}a{30}", "(a+){10}", "(?:.{0,9}){12}b"]
    for pattern in (*endless, *many):
        with pytest.raises(
            WeightsError, match=r"take forever|would take too long for a name of 61"
        ):
            load_params(path, {}, f"{pattern}=w")
    plain = ["(a++)+!", "(?>a+)+!", "([ab]|c)*!", "(aa)*!", r"(.*)\.(\d+)\.(.*)\.(\d+)\.(.*)"]
    for pattern in (*plain, "(?:model[.])?(.*)", "(a|b|cd)(.*)", "a{1,99}!"):
        load_params(path, {}, f"{pattern}=w")


def test_a_prefix_that_would_find_the_missing_is_hinted_at(tmp_path: Path) -> None:
    names = [f"h.{number}.w" for number in range(30)]
    path = safetensors(tmp_path / "w.safetensors", {f"a.b.{name}": VALUES for name in names})
    with pytest.raises(WeightsError) as error:
        load_params(path, dict.fromkeys(names, ("f32", (3, 32))))
    rule = str(error.value).splitlines()[-1].split("'")[1]
    assert len(load_params(path, dict.fromkeys(names, ("f32", (3, 32))), rule)) == 30
    back = safetensors(tmp_path / "v.safetensors", dict.fromkeys(names, VALUES))
    wanted = {f"m.{name}": ("f32", (3, 32)) for name in names}
    with pytest.raises(WeightsError) as error:
        load_params(back, wanted)
    rule = str(error.value).splitlines()[-1].split("'")[1]
    assert len(load_params(back, wanted, rule)) == 30


def sharded(folder: Path, files: dict[str, str] | None = None) -> Path:
    """A folder of two files and an index; the second is damaged."""
    folder.mkdir(exist_ok=True)
    safetensors(folder / "model-1.safetensors", {"a": VALUES, "b": VALUES + 1})
    (folder / "model-2.safetensors").write_bytes(b"damaged")
    names = {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}
    content = {"metadata": {}, "weight_map": names | (files or {})}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))
    return folder


def test_of_the_files_of_an_index_only_those_that_are_needed_are_opened(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "model")
    for path in (folder, folder / "model.safetensors.index.json"):
        loaded = load_params(path, {"a": ("f32", (3, 32)), "b": ("f16", (3, 32))})
        assert np.array_equal(loaded["a"], VALUES) and loaded.extra == 1
        with pytest.raises(WeightsError, match=r"model-2\.safetensors is no whole"):
            load_params(path, {"c": ("f32", (3, 32))})


def test_a_dtype_that_is_none_is_told_in_signs_that_a_terminal_shows(tmp_path: Path) -> None:
    entry = {"dtype": "\x00\x1b[2J" + "F" * 999, "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"w": entry}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(WeightsError, match="which is not read") as error:
        load_params(path, {"w": ("f32", (2,))})
    assert str(error.value).replace("\n", "").isprintable() and len(str(error.value)) < 500


@pytest.mark.parametrize(
    "file",
    ["../w.safetensors", "/w.safetensors", "a/w.safetensors", "", 3, "w" * 400, "\ud800", "a\0b"],
    ids=ascii,
)
def test_an_index_leads_to_files_beside_it_only(tmp_path: Path, file: str) -> None:
    with pytest.raises(WeightsError, match="no file beside it"):
        open_checkpoint(sharded(tmp_path, {"d": file}))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": []}', "[" * 100_000, "\xff"])
def test_an_index_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(WeightsError, match=r"is no index|is empty"):
        open_checkpoint(path)


def test_an_index_that_names_an_array_twice_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}')
    with pytest.raises(WeightsError, match="the index names 'a' twice"):
        open_checkpoint(path)


def test_a_name_that_an_index_promises_in_vain_is_told(tmp_path: Path) -> None:
    folder = sharded(tmp_path, {"d": "model-1.safetensors", "e": "nowhere.safetensors"})
    with pytest.raises(WeightsError, match=r"'d' is to be in .*model-1\.safetensors, and is not"):
        load_params(folder, {"d": ("f32", (3, 32))})
    (folder / "within.safetensors").mkdir()
    for file in ("nowhere", "within"):
        sharded(tmp_path, {"e": f"{file}.safetensors"})
        message = rf"index\.json: 'e' is to be in .*{file}\.safetensors, and there is no such file"
        with pytest.raises(WeightsError, match=message):
            load_params(folder, {"e": ("f32", (3, 32))})


def test_a_folder_that_does_not_say_which_file_is_meant_is_told(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"none of model\.safetensors"):
        open_checkpoint(tmp_path)
    safetensors(tmp_path / "one.safetensors", {"a": VALUES})
    assert list(open_checkpoint(tmp_path)) == ["a"]
    safetensors(tmp_path / "two.safetensors", {"b": VALUES})
    with pytest.raises(WeightsError, match=r"'one\.safetensors', 'two\.safetensors'"):
        open_checkpoint(tmp_path)
    safetensors(tmp_path / "model.safetensors", {"c": VALUES})
    assert list(open_checkpoint(tmp_path)) == ["c"]
    with pytest.raises(WeightsError, match=r"read from \.safetensors, \.npz, \.gguf"):
        open_checkpoint(Path(__file__))


def test_of_a_large_file_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """A file of 64 GiB, nearly all of it a hole, is opened at once, and its end is read."""
    path, size = tmp_path / "w.safetensors", 64 << 30
    entries = {
        "hole": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]},
        "w": {"dtype": "F32", "shape": [3, 32], "data_offsets": [size, size + VALUES.nbytes]},
    }
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.seek(size, 1)
        file.write(VALUES.tobytes())
    loaded = load_params(path, {"w": ("f32", (3, 32))})["w"]
    assert np.array_equal(loaded, VALUES)
    held = loaded
    while isinstance(held, np.ndarray):
        held = held.base
    assert isinstance(held.obj if isinstance(held, memoryview) else held, mmap.mmap)


def test_packed_bytes_are_taken_as_they_are(tmp_path: Path) -> None:
    packed = pack_blocks(VALUES, "q8_0")
    path = safetensors(tmp_path / "w.safetensors", {"w": packed})
    assert np.array_equal(load_params(path, {"w": ("q8_0", (3, 32))})["w"], packed)
    with pytest.raises(WeightsError, match="has shape"):
        load_params(path, {"w": ("q4_1", (3, 32))})
    with pytest.raises(WeightsError, match="'w' has dtype uint8, not float32"):
        load_params(path, {"w": ("f32", (3, 32))})


def test_tensors_of_pytorch_are_read_where_it_is_installed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    kinds = {"f": torch.float32, "h": torch.float16, "b": torch.bfloat16, "d": torch.float64}
    held = {name: torch.from_numpy(VALUES).to(dtype) for name, dtype in kinds.items()}
    held["t"] = torch.from_numpy(VALUES.T.copy()).T
    held["k"] = torch.arange(3)
    held["e"] = torch.from_numpy(VALUES).to(torch.float8_e5m2)
    old = {"_use_new_zipfile_serialization": False}
    for name, options in (("new.pt", {}), ("old.bin", old)):
        path = tmp_path / name
        if options:  # PyTorch does not read back 8 bits in that format
            del held["e"]
        torch.save({"model": held, "step": 3, "f": held["f"]}, path, **options)
        wanted = {f"model.{key}": ("f32", (3, 32)) for key in held if key != "k"}
        loaded = load_params(path, wanted | {"f": ("bf16", (3, 32)), "model.k": ("i64", (3,))})
        for key in held.keys() - {"k", "t"}:
            expected = held[key].to(torch.float32).numpy()
            assert np.array_equal(loaded[f"model.{key}"], expected)
        assert np.array_equal(loaded["model.t"], VALUES)
        assert loaded["model.k"].tolist() == [0, 1, 2]
    (tmp_path / "rubbish.pt").write_bytes(b"\x80\x05K\x01." * 50)
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save(Path, tmp_path / "hostile.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    said = {
        "rubbish.pt": "no whole file of tensors: [A-Z]",
        "list.pt": "holds list, not tensors by name",
        "hostile.pt": r"holds what is no tensor \(pathlib[\w.]*\), .* save tensors alone",
        "module.pt": r"no tensor \(torch.nn.modules.linear.Linear\), .*state_dict\(\)",
    }
    for name, message in said.items():
        with pytest.raises(WeightsError, match=f"{name}.*{message}") as error:
            open_checkpoint(tmp_path / name)
        assert "weights_only" not in str(error.value)


def test_views_of_pytorch_give_their_values_and_tensors_without_any_are_told(
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    w = torch.from_numpy(VALUES)
    views = {
        "negative": torch._neg_view(w),
        "wide": w[:, :1].expand(3, 32),
        "turned": w.T,
        "every second": w[:, ::2],
        "of a product": torch.complex(w, w).conj().imag,
    }
    path = tmp_path / "w.pt"
    torch.save(views | {"meta": torch.empty(2, 3, device="meta")}, path)
    wanted = {name: ("f32", tuple(view.shape)) for name, view in views.items()}
    loaded = load_params(path, wanted)
    for name, view in views.items():
        assert np.array_equal(loaded[name], view.resolve_neg().contiguous().numpy())
    with pytest.raises(WeightsError, match="'meta' has dtype float32 without values, which is not"):
        load_params(path, {"meta": ("f32", (2, 3))})


def test_without_pytorch_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    (tmp_path / "w.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(WeightsError, match=r"pip install 'mgn-compiler\[torch\]'"):
        open_checkpoint(tmp_path / "w.pt")
