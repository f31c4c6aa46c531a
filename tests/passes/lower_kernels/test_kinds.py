"""Every kind of kernel has a form, schedules and a template."""

from collections.abc import Mapping
from typing import Any

import pytest

from mgn.dialects.fusion.forms import FORMS
from mgn.dialects.fusion.operations import KernelKind
from mgn.passes.lower_kernels.lower import TEMPLATES
from mgn.passes.schedules.choose import ENUMERATED


@pytest.mark.parametrize(
    "table", [FORMS, ENUMERATED, TEMPLATES], ids=["form", "schedules", "loops"]
)
def test_each_kind_has_its_row(table: Mapping[str, Any]) -> None:
    assert {str(kind) for kind in table} == {str(kind) for kind in KernelKind}
