"""Tests of a matrix unit, in a process whose driver makes sub-groups: one for all of a folder.

A process takes seconds to start, which is what a file of these tests takes.
"""

import re
from pathlib import Path

import pytest

from tests.support.matrix_unit_fixture import passes_in_a_process_with_sub_groups

HERE = Path(__file__).parent
FOLDERS = ("attention", "attention_gradient", "product")
"""Those with files that import the device with a matrix unit."""


@pytest.mark.long
@pytest.mark.parametrize("folder", FOLDERS)
def test_these_tests_pass_where_the_driver_makes_sub_groups(folder: str) -> None:
    passes_in_a_process_with_sub_groups(str(HERE / folder))


def test_no_file_with_such_tests_lies_elsewhere() -> None:
    imports = re.compile(r"^from tests\.support\.matrix_unit_fixture import device\b", re.MULTILINE)
    users = [
        path
        for path in HERE.parents[1].rglob("test_*.py")
        if imports.search(path.read_text("utf-8"))
    ]
    assert {path.parent for path in users} == {HERE / folder for folder in FOLDERS}
