"""Weight files are read with care: every fault is named, and damage is never a traceback."""

import io
import json
import os
import random
import weakref
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn.runtime.checkpoints.load import load_params
from mgn.runtime.errors import WeightsError
from mgn.runtime.safetensors_file import is_mapped
from mgn.runtime.weights import load_arrays, save_params

ARRAYS = {
    "layers.0.w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "layers.0.b": np.array([1.5, -2.25], ml_dtypes.bfloat16),
    "scalar": np.array(3, np.int32),
    "mask": np.array([True, False, True]),
    "none": np.zeros((0, 3), np.float16),
}
EXPECTED: dict[str, tuple[str, tuple[int, ...]]] = {
    "layers.0.w": ("f32", (3, 4)),
    "layers.0.b": ("bf16", (2,)),
    "scalar": ("i32", ()),
}


def write(path: Path) -> Path:
    if path.suffix == ".npz":
        np.savez(path, allow_pickle=False, **ARRAYS)
    else:
        save_params(path, ARRAYS)
    return path


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_arrays_come_back_as_they_were_written(tmp_path: Path, suffix: str) -> None:
    loaded = load_arrays(write(tmp_path / f"w{suffix}"))
    for name, array in ARRAYS.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_extra_arrays_are_only_counted(tmp_path: Path, suffix: str) -> None:
    loaded = load_params(write(tmp_path / f"w{suffix}"), EXPECTED)
    assert set(loaded) == set(EXPECTED)
    assert loaded.extra >= 2


def test_every_parameter_that_does_not_fit_is_named_in_one_error(tmp_path: Path) -> None:
    expected = {
        "layers.0.w": ("f32", (4, 3)),
        "layers.0.b": ("i32", (2,)),
        "layers.0.bias": ("f32", (2,)),
        "layer.0.w2": ("f32", (7,)),
    }
    with pytest.raises(WeightsError) as caught:
        load_params(write(tmp_path / "w.safetensors"), expected)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert "has shape [3, 4], not [4, 3]" in lines[1]
    assert "has dtype bfloat16, not int32" in lines[2] and "np.int32" in lines[2]
    assert "'layers.0.bias' (f32[2]) is missing" in lines[3]
    assert "'layer.0.w2' (f32[7]) is missing" in lines[4]


def test_a_long_list_of_faults_stays_on_one_screen(tmp_path: Path) -> None:
    expected = {f"w{i}": ("f32", (1,)) for i in range(100)}
    with pytest.raises(WeightsError, match="and 88 more") as caught:
        load_params(write(tmp_path / "w.npz"), expected)
    assert len(str(caught.value).splitlines()) == 14


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_damaged_files_give_our_error_and_no_other(tmp_path: Path, suffix: str) -> None:
    whole = write(tmp_path / f"w{suffix}").read_bytes()
    dice = random.Random(5)
    damaged = tmp_path / f"damaged{suffix}"
    refused = 0
    for length in range(0, len(whole), max(len(whole) // 60, 1)):
        damaged.write_bytes(whole[:length])
        with pytest.raises(WeightsError, match="damaged"):
            load_arrays(damaged)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(4):
            data[dice.randrange(len(data))] = dice.randrange(256)
        damaged.write_bytes(data)
        try:
            load_arrays(damaged)
        except WeightsError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npz", "No such file"),
        ("weights.pt", r"read from \.safetensors and \.npz files"),
        ("folder.npz", "Is a directory"),
    ],
)
def test_paths_that_hold_no_arrays_are_explained(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(WeightsError, match=message):
        load_arrays(tmp_path / name)


def test_a_single_array_or_pickled_objects_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(WeightsError, match="one array without a name"):
        load_arrays(tmp_path / "one.npz")
    (tmp_path / "rubbish.npz").write_bytes(b"\x80\x05K\x01." * 50)
    with pytest.raises(WeightsError, match=r"rubbish\.npz is no npz file") as error:
        load_arrays(tmp_path / "rubbish.npz")
    assert "allow_pickle" not in str(error.value)
    np.savez(tmp_path / "none.npz")
    assert load_arrays(tmp_path / "none.npz") == {}
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    with pytest.raises(WeightsError, match="'a' holds Python objects, which are not read"):
        load_arrays(tmp_path / "objects.npz")


def npy(array: np.ndarray) -> bytes:
    """The file that np.save writes."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("x.npy", npy(np.ones(3))), ("x.npy", npy(np.ones(3)))], "holds 'x' twice"),
        ([("x", npy(np.ones(3))), ("x.npy", npy(np.ones(3)))], "holds 'x' twice"),
        ([("x.txt", b"three ones")], r"holds 'x\.txt', which is no array"),
        ([("x.npy", npy(np.ones((3, 4))).replace(b"(3, 4)", b"(3***4"))], "no whole npz file"),
        (
            [("x.npy", npy(np.ones((3, 4))).replace(b"(3, 4)", b"(3,-4)"))],
            "which no array can have",
        ),
        (
            [("x.npy", npy(np.ones((3, 4))).replace(b"<f8", b"<f4"))],
            "'x' is to have 48 bytes, and has 96",
        ),
        (
            [("x.npy", npy(np.ones((3, 4))).replace(b"(3, 4)", b"(2, 4)"))],
            "'x' is to have 64 bytes, and has 96",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_of_anything_else_is_told_what_is_wrong(
    tmp_path: Path, members: list[tuple[str, bytes]], message: str
) -> None:
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    with pytest.raises(WeightsError, match=message):
        load_arrays(tmp_path / "w.npz")


def test_a_file_gets_the_mode_of_its_user_and_a_link_stays_one(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        save_params(tmp_path / "w.safetensors", ARRAYS)
    finally:
        os.umask(mask)
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o777 == 0o644
    (tmp_path / "link.safetensors").symlink_to("w.safetensors")
    save_params(tmp_path / "link.safetensors", {"x": np.ones(1, np.float32)})
    assert (tmp_path / "link.safetensors").is_symlink()
    assert list(load_arrays(tmp_path / "w.safetensors")) == ["x"]
    save_params("/dev/null", ARRAYS)
    assert Path("/dev/null").is_char_device()


def test_a_file_that_cannot_be_written_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WeightsError, match="Not a directory"):
        save_params(tmp_path / "file" / "w.safetensors", ARRAYS)
    for name in ("w.npz", "w.xyz", "w"):  # what could not be read back
        with pytest.raises(WeightsError, match=rf"{name}: .* a name that ends in \.safetensors"):
            save_params(tmp_path / name, ARRAYS)
        assert not (tmp_path / name).exists()
    with pytest.raises(WeightsError):
        save_params(tmp_path / "w.safetensors", {"o": np.array([{}], dtype=object)})
    with pytest.raises(WeightsError, match="named '__metadata__', where the format holds notes"):
        save_params(tmp_path / "w.safetensors", {"__metadata__": np.ones(1, np.float32)})
    assert not (tmp_path / "w.safetensors").exists()


def safetensors_with(shape: list[int], dtype: str = "F32", size: int = 0, name: str = "w") -> bytes:
    """A safetensors file of one array, with a header that may not be right."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({name: entry}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + bytes(size)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (safetensors_with([1] * 65, size=4), "'w' has the shape [1, 1, 1"),
        (safetensors_with([0, 1 << 62, 4]), "'w' has the shape [0, 4611686018427387904, 4]"),
        (safetensors_with([0, 1 << 63]), "'w' has the shape [0, 9223372036854775808]"),
        (safetensors_with([1] * 65, size=4, name="\n\x1b[0m"), "'\ufffd\ufffd[0m' has the shape"),
    ],
)
def test_a_shape_that_no_array_can_have_is_told_with_its_name(
    tmp_path: Path, data: bytes, message: str
) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(data)
    with pytest.raises(WeightsError) as error:
        load_arrays(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "which no array can have" in str(error.value)


def test_a_name_that_a_header_has_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    entry = '"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    header = f"{{{entry}, {entry}}}".encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(WeightsError, match="the header names 'w' twice"):
        load_arrays(path)


@pytest.mark.parametrize(
    ("dtype", "size", "message"),
    [
        ("I32", 8, r"dtype int32, not float32 \(f32\[2\]\); convert it with"),
        ("F8_E8M0", 2, "dtype F8_E8M0, which is not read"),
        ("C64", 16, "dtype C64, which is not read"),
    ],
)
def test_a_dtype_that_no_parameter_has_is_named(
    tmp_path: Path, dtype: str, size: int, message: str
) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(safetensors_with([2], dtype, size))
    with pytest.raises(WeightsError, match=message):
        load_params(path, {"w": ("f32", (2,))})
    assert load_params(path, {}).extra == 1


@pytest.mark.parametrize(
    ("place", "instead"),
    [
        (b"(3, 4)", b"(9" + b"9" * 30 + b", 4)"),
        (b"(3, 4)", b"(4611686018427387904, 4)"),
        (b"'<f8'", b"'|O'"),
        (b"'<f8'", b"'V2147483647'"),
        (b"'<f8'", b"[('a', '<f8')]"),
        (b"'<f8'", b"'(1000000000,)f8'"),
        (b"'<f8'", b"(" * 500 + b")" * 500),
        (b"False", b"None"),
        (b"'shape'", b"'shapes'"),
    ],
)
def test_a_hostile_header_of_an_npz_member_is_told_with_the_file(
    tmp_path: Path, place: bytes, instead: bytes
) -> None:
    whole = npy(np.ones((3, 4)))
    start = 10
    header = whole[start : start + int.from_bytes(whole[8:10], "little")].replace(place, instead)
    member = whole[:8] + len(header).to_bytes(2, "little") + header + whole[-96:]
    path = tmp_path / "w.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", member)
    try:
        arrays = load_arrays(path)
    except WeightsError as error:
        assert str(path) in str(error) and len(str(error)) < 1_000
        assert "ast." not in str(error) and "statement" not in str(error)
    else:
        assert arrays["x"].nbytes <= 96
        with pytest.raises(WeightsError, match="'x' has"):
            load_params(path, {"x": ("f64", (3, 4))})


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_every_bool_that_is_read_is_a_byte_of_0_or_1(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"w{suffix}"
    if suffix == ".npz":
        np.savez(path, w=np.frombuffer(b"\x02\x00\xff", np.bool_))
    else:
        path.write_bytes(safetensors_with([3], "BOOL", 3)[:-3] + b"\x02\x00\xff")
    assert load_arrays(path)["w"].tobytes() == b"\x01\x00\x01"
    np.savez(tmp_path / "one.npz", w=np.True_)
    one = load_arrays(tmp_path / "one.npz")["w"]
    assert type(one) is np.ndarray and one.shape == ()


def test_a_pipe_or_a_device_is_no_file_of_arrays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.npz")
    with pytest.raises(WeightsError, match="is no file"):
        load_arrays(tmp_path / "w.npz")


def test_the_library_of_the_format_reads_what_is_written(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    arrays = {
        **{name: array for name, array in ARRAYS.items() if name != "layers.0.b"},
        "ü 🙂": np.arange(3, dtype=">f8"),
        "wide": np.array([2**63], np.uint64),
        "turned": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "pairs": np.array([1 + 2j], np.complex64),
    }
    save_params(tmp_path / "w.safetensors", arrays)
    found = load_file(tmp_path / "w.safetensors")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found[name], array)


def test_arrays_are_written_one_after_another(tmp_path: Path) -> None:
    held: list[int] = []

    class Made(Mapping[str, np.ndarray]):
        """Arrays that are made when they are looked at."""

        def __getitem__(self, name: str) -> np.ndarray:
            if name not in {*self}:
                raise KeyError(name)
            array = np.full((1 << 20,), int(name), np.int32)
            held.append(int(name))
            weakref.finalize(array, held.remove, int(name))
            assert len(held) <= 2
            return array

        def __iter__(self) -> Iterator[str]:
            return iter(map(str, range(9)))

        def __len__(self) -> int:
            return 9

    save_params(tmp_path / "w.safetensors", Made())
    assert [int(array[-1]) for array in load_arrays(tmp_path / "w.safetensors").values()] == [
        *range(9)
    ]


def test_a_value_that_only_its_panels_are_made_of_stays_in_its_file(tmp_path: Path) -> None:
    text = "graph g(x: f32[64, 256]) { param w: f32[256, 512]; return y = x @ w }"
    exe = mgn.compile(mgn.parse(text), device="cpu")
    w = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    save_params(tmp_path / "w.safetensors", {"w": w})
    exe.load_params(tmp_path / "w.safetensors")
    held = exe.params.session.parameter("w")
    assert held.buffer is None and held.value is not None and is_mapped(held.value)
    x = np.ones((64, 256), np.float32)
    np.testing.assert_allclose(exe(x=x)["y"], x @ w, rtol=1e-4, atol=1e-4)
    exe.params["w"] = own = w.copy()
    assert held.value is not own and not is_mapped(held.value)
    own[:] = 0
    np.testing.assert_array_equal(exe.params["w"], w)
