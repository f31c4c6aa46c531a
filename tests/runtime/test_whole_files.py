"""Files are written whole or not at all, with the mode of the user, over nothing protected."""

import os
import threading
from pathlib import Path

import pytest

from mgn.diagnostics import MgnError
from mgn.modules.files import write_whole
from mgn.runtime.whole_files import write_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_mode_of_the_umask_and_an_old_one_its_own(tmp_path: Path) -> None:
    for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        held = os.umask(mask)
        try:
            write_file(tmp_path / f"{mask}", b"x")
        finally:
            os.umask(held)
        assert (tmp_path / f"{mask}").stat().st_mode & 0o777 == mode
    (tmp_path / "18").chmod(0o640)
    write_file(tmp_path / "18", b"new")
    assert (tmp_path / "18").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "18").read_bytes() == b"new"


def test_the_umask_of_other_threads_is_never_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise AssertionError("the umask is the whole process's")

    monkeypatch.setattr(os, "umask", refuse)
    threads = [threading.Thread(target=write_file, args=(tmp_path / f"{i}", b"")) for i in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == ["1", "2"]


def test_a_file_that_is_write_protected_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(MgnError, match=r"cannot write '.*kept': permission denied"):
        write_whole(path, b"new")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(MgnError, match="permission denied"):
        write_whole(tmp_path / "link", b"new")
    assert path.read_text() == "old" and names(tmp_path) == ["kept", "link"]


def test_a_link_stays_and_a_ring_of_links_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    write_whole(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "later").read_bytes() == b"x"
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(MgnError, match=r"cannot write '.*a': too many levels of symbolic links"):
        write_whole(tmp_path / "a", b"x")
    assert (tmp_path / "a").is_symlink()


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("\U0001f600" * 63), b"x")
    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_or_an_interrupt_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(type(error)):
        write_file(path, b"new")
    assert path.read_text() == "old" and names(tmp_path) == ["file"]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(MgnError, match="cannot write '/dev/full': no space left on device"):
        write_whole("/dev/full", bytes(1 << 20))
