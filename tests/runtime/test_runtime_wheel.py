"""The wheel that only runs packages: built from the tree, and run where no compiler is."""

import email
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mgn
from distributions import runtime
from mgn.runtime.devices import list_devices
from mgn.runtime.packages.writer import package_bytes
from tests.runtime.package_samples import affine

ALONE = """
import importlib.abc, json, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"xdsl", "egglog", "highspy", "lark"}:
            raise ImportError(name)

sys.meta_path[:] = [item for item in sys.meta_path if "editable" not in repr(item).lower()]
sys.meta_path.insert(0, Blocked())
import mgn
from mgn.commands.run import main
assert ".whl" in mgn.__file__, mgn.__file__
exe = mgn.load_package(sys.argv[1])
shape = list(exe.inputs.values())[0].shape
import numpy as np
found = exe(x=np.ones(shape, np.float32))
print(json.dumps({name: array.tolist() for name, array in found.items()}), flush=True)
try:
    mgn.compile
except mgn.MgnError as error:
    print(error, flush=True)
print([main([sys.argv[1]]), main(["program.mgn"]), main(["--version"]), main(["--list-devices"])])
"""


def test_the_wheel_says_what_it_needs_and_holds_what_it_lists(tmp_path: Path) -> None:
    path = runtime.build(tmp_path)
    first = path.read_bytes()
    assert runtime.build(tmp_path).read_bytes() == first
    assert path.name == f"mgn_runtime-{mgn.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (about,) = (name for name in names if name.endswith("/METADATA"))
        said = email.message_from_bytes(wheel.read(about))
        (listed,) = (name for name in names if name.endswith("/RECORD"))
        rows = wheel.read(listed).decode().splitlines()
    assert {row.partition(",")[0] for row in rows} == set(names)
    plain = [item for item in said.get_all("Requires-Dist", []) if "extra" not in item]
    needed = {item.partition(">")[0] for item in plain}
    assert needed == set(runtime.NEEDED) and not needed & {"egglog", "xdsl", "highspy", "lark"}
    assert said["Name"] == "mgn-runtime" and said["Version"] == mgn.__version__


def test_a_package_runs_where_the_compiler_is_not(tmp_path: Path) -> None:
    if not list_devices():
        pytest.skip("there is no OpenCL device")
    package = affine()
    path = tmp_path / "affine.mgnpkg"
    path.write_bytes(package_bytes(package))
    wanted = mgn.load_package(path)
    (shape,) = (type.shape for type in wanted.inputs.values())
    found = subprocess.run(
        [sys.executable, "-c", ALONE, str(path)],
        env={**os.environ, "PYTHONPATH": str(runtime.build(tmp_path))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    results, refused, ran, _, *listed, statuses = found.stdout.splitlines()
    for name, array in wanted(x=np.ones(shape, np.float32)).items():
        np.testing.assert_array_equal(np.array(json.loads(results)[name], np.float32), array)
    assert refused.startswith("mgn-runtime runs packages, and has no mgn.compile; `pip install mgn")
    assert ": f32[" in ran and statuses == "[0, 1, 0, 0]"
    assert listed == [str(device) for device in list_devices()]
    assert "error: mgn-runtime runs packages; to compile a program, `pip install" in found.stderr
