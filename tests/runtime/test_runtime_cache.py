"""The kernel cache speeds up a second build, and never makes a build fail."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from mgn.runtime.cache import KernelCache, kernel_key
from mgn.runtime.launching.executable import Executable
from mgn.runtime.location import MARK, CacheWarning, cache_folder, claimed, keep_file
from tests.conftest import ROOT
from tests.runtime.device_kernels import KERNELS, PLAN, SIZE


def run(cache: KernelCache) -> Executable:
    """Build and run the plan through a cache, checking its values."""
    executable = Executable(PLAN, KERNELS, cache=cache)
    executable.set_param("scale", np.full(SIZE, 3.0, np.float32))
    y = executable.run({"x": np.ones((8, 12), np.float32)})["y"]
    assert np.array_equal(y.ravel(), np.arange(SIZE, dtype=np.float32) + 3)
    return executable


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.kernel"))


def test_a_second_build_takes_every_kernel_from_the_cache(tmp_path: Path) -> None:
    assert run(KernelCache(tmp_path)).build.from_cache == 0
    assert len(files(tmp_path)) == 2
    assert run(KernelCache(tmp_path)).build.from_cache == 2


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "rubbish", "sealed rubbish"])
def test_damaged_files_are_built_again_and_replaced(tmp_path: Path, damage: str) -> None:
    cache = KernelCache(tmp_path)
    run(cache)
    for path in files(tmp_path):
        data = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "flipped":
            path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "rubbish":
            path.write_bytes(os.urandom(500))
        else:
            cache.store(path.stem, b"no binary at all")
    assert run(KernelCache(tmp_path)).build.from_cache == 0
    assert run(KernelCache(tmp_path)).build.from_cache == 2


def test_a_folder_that_cannot_be_written_only_costs_the_build(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = KernelCache(blocked / "kernels")
    assert not cache.store("ab" * 32, b"binary")
    assert run(cache).build.from_cache == 0


def test_a_disabled_cache_keeps_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MGN_CACHE_DIR", "off")
    assert cache_folder() is None and KernelCache.default().folder is None
    assert run(KernelCache.default()).build.from_cache == 0
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))
    assert KernelCache.default().folder == tmp_path / "mgn-cache" / "kernels"


def test_everything_that_fixes_a_binary_is_in_its_key() -> None:
    keys = {
        kernel_key("source", (), "device"),
        kernel_key("source2", (), "device"),
        kernel_key("source", ("-w",), "device"),
        kernel_key("source", (), "device2"),
    }
    assert len(keys) == 4 and kernel_key("source", (), "device") in keys


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path, limit=10_000)
    keys = [f"{i:02x}" * 32 for i in range(8)]
    for age, key in enumerate(keys):
        assert cache.store(key, bytes(2_000))
        path = tmp_path / key[:2] / f"{key}.kernel"
        os.utime(path, (1_000 + age, 1_000 + age))
    assert cache.load(keys[4]) == bytes(2_000)
    cache.trim()
    left = [key for key in keys if (tmp_path / key[:2] / f"{key}.kernel").exists()]
    assert left == [keys[4], keys[5], keys[6], keys[7]]
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 10_000


def test_a_folder_is_looked_through_when_much_was_written_whichever_cache_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    found = KernelCache._files
    monkeypatch.setattr(KernelCache, "_files", lambda self: looked.append(0) or found(self))
    counts: list[int] = []
    for number in range(9):
        cache = KernelCache(tmp_path, limit=10_000)
        assert cache.store(f"{number:02x}" * 32, bytes(500))
        counts.append(len(looked))
    assert counts == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_what_a_crash_left_half_written_is_swept_away(tmp_path: Path) -> None:
    leftover, fresh = (tmp_path / "ab" / f".mgn-{sign * 16}.tmp" for sign in "0f")
    leftover.parent.mkdir()
    leftover.write_bytes(b"half")
    os.utime(leftover, (1_000, 1_000))
    fresh.write_bytes(b"half")
    KernelCache(tmp_path).trim()
    assert not leftover.exists() and fresh.exists()


def old(path: Path, size: int = 4) -> Path:
    """A file that nobody has touched for long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (1_000, 1_000))
    return path


def test_a_cache_in_a_repository_leaves_all_of_its_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGN_CACHE_DIR", ".")
    key = "ab" * 32
    names = ("kernels/cuda/gemm.cu", "programs/x/y.py", "mgn/a.py", "devices/x.json")
    names += (f"kernels/ab/{key}.kernel", "vendors/ab/x.icd", f"kernels/ab/.mgn-{'0' * 16}.tmp")
    kept = [old(tmp_path / name) for name in names]
    for _ in range(2):
        cache = KernelCache.default()
        cache.limit = 100
        assert cache.store(key, bytes(200)) and cache.store("cd" * 32, b"second")
        cache.trim()
    assert all(path.read_bytes() == bytes(4) for path in kept)
    assert cache.load("cd" * 32) == b"second" and cache.load(key) is None
    ours = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} - {
        path.relative_to(tmp_path).parts[0] for path in kept
    }
    assert ours == {"mgn-cache"}


def test_only_names_that_the_cache_gives_are_deleted(tmp_path: Path) -> None:
    key = "ab" * 32
    strange = ("ab/notes.kernel", "ab/.tmp-xyz", f"ab/{key}.kernel.bak", f"cuda/{key}.kernel")
    strange += (f"ab/{key.upper()}.kernel", f"ab/.{key}", f"{key}.kernel", "ab/.mgn-1.tmp")
    kept = [old(tmp_path / name, 5_000) for name in strange]
    old(tmp_path / "ab" / f"{key}.kernel", 5_000)
    KernelCache(tmp_path, limit=1_000).trim()
    assert not (tmp_path / "ab" / f"{key}.kernel").exists()
    assert all(path.exists() for path in kept)


def test_nothing_that_a_link_leads_to_is_deleted_or_written(tmp_path: Path) -> None:
    key = "ab" * 32
    user, cache = tmp_path / "user", tmp_path / "cache"
    kept = [old(user / "ab" / f"{key}.kernel"), old(user / "ab" / f".mgn-{'0' * 16}.tmp")]
    for link in ("kernels", "programs/ab", f"tuning/ab/{key}.kernel"):
        (cache / link).parent.mkdir(parents=True, exist_ok=True)
    (cache / "kernels").symlink_to(user)
    (cache / "programs" / "ab").symlink_to(user / "ab")
    (cache / "tuning" / "ab" / f"{key}.kernel").symlink_to(kept[0])
    for folder in ("kernels", "programs", "tuning"):
        store = KernelCache(cache / folder, limit=1)
        assert store.load(key) is None
        store.discard("cd" * 32)
        store.trim()
        assert store.store(key, b"more") == (folder == "tuning")
        store.discard(key)
        assert [path.read_bytes() for path in kept] == [bytes(4)] * 2
        assert all(path.stat().st_mtime == 1_000 for path in kept)
    assert sorted(path.name for path in user.rglob("*")) == sorted(
        ["ab", *(path.name for path in kept)]
    )


def test_a_folder_of_the_caches_name_that_another_made_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    note = old(other / "note.txt")
    assert claimed(other) is None and [*other.iterdir()] == [note]
    note.rename(other / MARK)
    assert claimed(other) is None and (other / MARK).read_bytes() == bytes(4)
    (tmp_path / "link").symlink_to(other)
    (tmp_path / "file").write_text("")
    assert claimed(tmp_path / "link") is None and claimed(tmp_path / "file") is None
    assert claimed(tmp_path / "new") == claimed(tmp_path / "new") == tmp_path / "new"
    assert b"8a477f597d28d172789f06886806bc55" in (tmp_path / "new" / MARK).read_bytes()
    (tmp_path / "racing").mkdir()
    old(tmp_path / "racing" / f".mgn-{'0' * 16}.tmp")
    assert claimed(tmp_path / "racing") is not None


def test_a_chosen_folder_is_the_same_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MGN_CACHE_DIR", "here")
    assert cache_folder() == tmp_path / "here" / "mgn-cache"


def test_a_chosen_folder_that_keeps_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(CacheWarning, match="MGN_CACHE_DIR: .*file cannot be written"):
        assert cache_folder() is None


def test_a_binary_under_the_name_of_another_is_none(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    first, second = "ab" * 32, "ab" + "cd" * 31
    assert cache.store(first, b"binary")
    (tmp_path / "ab" / f"{first}.kernel").rename(tmp_path / "ab" / f"{second}.kernel")
    assert cache.load(second) is None


def test_a_file_larger_than_the_whole_cache_is_not_read(tmp_path: Path) -> None:
    cache, key = KernelCache(tmp_path, limit=1_000), "ab" * 32
    huge = old(tmp_path / "ab" / f"{key}.kernel")
    os.truncate(huge, 1 << 40)
    assert cache.load(key) is None


def test_a_failed_write_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "in" / "file"
    assert keep_file(path, b"old")
    (path.parent / "folder").mkdir()
    assert not keep_file(path.parent / "folder", b"new")
    assert path.read_bytes() == b"old"
    assert sorted(item.name for item in path.parent.iterdir()) == ["file", "folder"]


def test_processes_that_build_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        from pathlib import Path
        import sys
        from tests.runtime.test_runtime_cache import run
        from mgn.runtime.cache import KernelCache
        for _ in range(5):
            run(KernelCache(Path(sys.argv[1]), limit=30_000))
    """)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert run(KernelCache(tmp_path)).build.from_cache == 2
