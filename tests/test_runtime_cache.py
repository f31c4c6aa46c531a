"""The kernel cache speeds up a second build, and never makes a build fail."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from device_kernels import KERNELS, PLAN, SIZE

from mgn.runtime.cache import KernelCache, kernel_key
from mgn.runtime.executable import Executable
from mgn.runtime.location import cache_folder, write_atomically


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
    assert KernelCache.default().folder == tmp_path / "kernels"


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


def test_what_a_crash_left_half_written_is_swept_away(tmp_path: Path) -> None:
    leftover = tmp_path / "ab" / ".tmp-xyz"
    leftover.parent.mkdir()
    leftover.write_bytes(b"half")
    os.utime(leftover, (1_000, 1_000))
    fresh = tmp_path / "ab" / ".tmp-new"
    fresh.write_bytes(b"half")
    KernelCache(tmp_path).trim()
    assert not leftover.exists() and fresh.exists()


def test_a_failed_write_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert write_atomically(path, b"old")
    (tmp_path / "folder").mkdir()
    assert not write_atomically(tmp_path / "folder", b"new")
    assert path.read_bytes() == b"old"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "folder"]


def test_processes_that_build_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        from pathlib import Path
        import sys
        from test_runtime_cache import run
        from mgn.runtime.cache import KernelCache
        for _ in range(5):
            run(KernelCache(Path(sys.argv[1]), limit=30_000))
    """)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
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
