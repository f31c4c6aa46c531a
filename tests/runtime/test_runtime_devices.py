"""Devices are found without help from the system, and named when they are not."""

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mgn.dialects.kernel import Device
from mgn.runtime import devices, icd
from mgn.runtime.devices import ComputeDevice, choose, list_devices, opencl
from mgn.runtime.errors import DeviceError
from mgn.runtime.launching import session
from mgn.runtime.location import cache_folder
from mgn.runtime.measurement.figures import describe, probe

CHOSEN = ("OCL_ICD_VENDORS", *icd.VARIABLES)


def python(code: str, **environment: str) -> str:
    """The output of a fresh interpreter."""
    clean = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_pip_installed_runtime_is_found_by_itself() -> None:
    out = python("from mgn.runtime.devices import list_devices\nprint(*list_devices(), sep='\\n')")
    assert "0:0" in out and "cpu" in out


def test_without_a_writable_cache_the_devices_are_found_all_the_same() -> None:
    code = "from mgn.runtime.devices import choose\nprint(choose().kind)"
    assert python(code, MGN_CACHE_DIR="off").strip() in ("cpu", "gpu")
    assert python(code, MGN_CACHE_DIR="/proc/nowhere").strip() in ("cpu", "gpu")


def test_a_home_that_cannot_be_written_does_not_matter() -> None:
    code = """
import numpy as np
import mgn
module = mgn.parse("graph g(x: f32[3]) { return y = x + 1 }")
print(mgn.compile(module, device="cpu")(x=np.ones(3, np.float32))["y"].tolist())
"""
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "MGN_CACHE_DIR"), "/proc/nowhere")
    assert python(code, **nowhere).strip() == "[2.0, 2.0, 2.0]"


def test_a_vendor_folder_that_the_user_chose_is_kept(tmp_path: Path) -> None:
    code = """
import os
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError
try:
    choose()
except DeviceError as error:
    print(os.environ["OCL_ICD_VENDORS"], error)
"""
    out = python(code, OCL_ICD_VENDORS=str(tmp_path))
    assert out.startswith(str(tmp_path)) and "pip install 'mgn-compiler[cpu]'" in out


@pytest.mark.parametrize("function", ["abs", "exp", "softplus"])
def test_a_sum_of_scalar_calls_survives_the_drivers_vectoriser(function: str) -> None:
    code = f"""
import numpy as np
import mgn
module = mgn.parse("graph g(x: f32[12, 7]) {{ return y = sum({function}(x)) }}")
x = np.linspace(-3, 3, 84, dtype=np.float32).reshape(12, 7)
print(mgn.compile(module, device="cpu")(x=x)["y"])
"""
    x = np.linspace(-3, 3, 84)
    expected = {"abs": np.abs, "exp": np.exp, "softplus": lambda x: np.log1p(np.exp(x))}
    computed = float(python(code, MGN_CACHE_DIR="off"))
    assert computed == pytest.approx(expected[function](x).sum(), rel=1e-5)


def test_the_runtime_package_itself_does_not_import_pyopencl() -> None:
    code = "import mgn.runtime.launching.executable, sys\nprint('pyopencl' in sys.modules)"
    assert python(code).strip() == "False"


def test_selectors_choose_by_kind_index_and_name() -> None:
    listed = list_devices()
    assert choose().index in {device.index for device in listed}
    gpus = [device for device in listed if device.kind == "gpu"]
    assert choose("auto").kind == ("gpu" if gpus else "cpu")
    for device in listed:
        assert choose(device.index) == device
        assert choose(device.name.lower()).name == device.name
    with pytest.raises(DeviceError, match=r"(?s)no OpenCL device matches 'toaster'.*0:0"):
        choose("toaster")
    with pytest.raises(DeviceError, match="matches '7:3'"):
        choose("7:3")


def test_a_whole_name_chooses_its_device_though_an_earlier_one_has_it_as_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PoCL's name of a processor has Intel's as its end, and which comes first is the machine's."""
    found = [
        ComputeDevice(f"{number}:0", name, "cpu", platform, "1.0", None)
        for number, (name, platform) in enumerate(
            (("pthread-AMD EPYC", "Portable Computing Language"), ("AMD EPYC", "Intel(R) OpenCL"))
        )
    ]
    monkeypatch.setattr(devices, "list_devices", lambda: found)
    assert choose("amd epyc").index == "1:0"
    assert choose("pthread-AMD EPYC").index == choose("epyc").index == "0:0"


def test_vendor_files_of_the_system_are_kept_and_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "lib" / icd.INTEL_LIBRARY
    monkeypatch.setattr(icd, "find_intel_library", lambda: library)
    monkeypatch.setattr(icd, "_loads", lambda name: name == icd.NVIDIA_LIBRARY)
    assert icd.vendor_files(tmp_path / "missing") == {
        "mgn-intel-cpu.icd": f"{library}\n",
        "mgn-nvidia.icd": "libnvidia-opencl.so.1\n",
    }
    (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    (tmp_path / "pocl.icd").write_text("/usr/lib/libpocl.so\n")
    assert set(icd.vendor_files(tmp_path)) == {"nvidia.icd", "pocl.icd", "mgn-intel-cpu.icd"}


def test_a_description_has_every_field_of_a_device_and_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))
    device = choose()
    figures = describe(device)
    described = Device(**figures)
    assert described.kind == device.kind and described.compute_units >= 1
    assert described.bandwidth > 1e8 and described.rates["f32"] > 1e8
    assert 1e-7 < described.launch_cost < 1e-2
    assert describe(device) == figures
    kept = (tmp_path / "mgn-cache" / "devices").glob("*.json")
    (stored,) = (path for path in kept if not path.stem.endswith("-barrier"))
    stored.write_text(stored.read_text()[:40])
    again = describe(device)
    assert again.keys() == figures.keys()
    assert json.loads(stored.read_text())["best"]["copy"] == again["bandwidth"]


def test_a_file_of_figures_wins_over_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = choose()
    path = tmp_path / "figures.json"
    path.write_text('{"bandwidth": 123.0}')
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))
    assert describe(device, measure=False) == {**probe(device), "bandwidth": 123.0}
    path.write_text("{")
    with pytest.raises(DeviceError, match=r"MGN_DEVICE_FIGURES names .* which is unusable"):
        describe(device, measure=False)
    path.write_text('{"bandwith": 1.0}')
    with pytest.raises(DeviceError, match="'bandwith'; did you mean 'bandwidth'"):
        describe(device, measure=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "holds no JSON object"),
        ('{"bandwidth": "fast"}', 'bandwidth must be a number above 0, not "fast"'),
        ('{"bandwidth": NaN}', "bandwidth must be a number above 0, not NaN"),
        ('{"compute_units": 2.5}', "compute_units must be a whole number above 0, not 2.5"),
        ('{"compute_units": true}', "compute_units must be a whole number above 0, not true"),
        ('{"has_fp64": 1}', "has_fp64 must be true or false, not 1"),
        ('{"rates": 3}', "rates must be an object of rates, not 3"),
        ('{"rates": {"f32": -1}}', "rates.f32 must be a number above 0, not -1.0"),
        ('{"rates": {"f33": 1}}', "no figure 'rates.f33'; did you mean 'f32'?"),
        ('{"matrix_rates": {"tf23": 1}}', "no figure 'matrix_rates.tf23'; did you mean 'tf32'?"),
        ('{"kind": "toaster"}', "kind is one of cpu, gpu, not toaster"),
        ('{"matrix_unit": "mme"}', "matrix_unit is one of none, mma, wgmma, not mme"),
        ('{"vector_bits": 100}', "vector_bits is one of 32, 64, 128, 256, 512, 1024"),
    ],
)
def test_a_figure_of_another_kind_is_told(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))
    with pytest.raises(DeviceError) as error:
        describe(choose(), measure=False)
    assert message in str(error.value)


def test_one_rate_can_be_overridden_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))  # whose figures no other process renews
    measured = describe(choose())["rates"]
    path = tmp_path / "figures.json"
    path.write_text('{"rates": {"bf16": 7}}')
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))
    assert describe(choose())["rates"] == {**measured, "bf16": 7.0}


def test_the_cache_lies_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MGN_CACHE_DIR", raising=False)
    folder = cache_folder()
    assert folder is not None and folder.parts[-2:] == ("mgn", "mgn-cache")


class Exhausted:
    """OpenCL on a device whose memory somebody has, as long as `holder` lives."""

    Error = opencl().Error

    def __init__(self, holder: Callable[[], object]) -> None:
        self.holder = holder

    def Context(self, found: list[object]) -> object:
        if self.holder() is not None:
            raise self.Error("OUT_OF_HOST_MEMORY")
        return opencl().Context(found)

    def CommandQueue(self, context: object) -> object:
        return opencl().CommandQueue(context)


def test_a_device_that_gives_no_context_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "opencl", lambda: Exhausted(lambda: "another program"))
    with pytest.raises(DeviceError, match=r"gives no context .*OUT_OF_HOST_MEMORY"):
        session.Session(choose("cpu"))


def test_what_a_cycle_alone_holds_makes_room_for_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    class Holder:
        """An executable that refers to itself."""

        def __init__(self) -> None:
            self.own = self

    held = weakref.ref(Holder())
    monkeypatch.setattr(session, "opencl", lambda: Exhausted(held))
    session.Session(choose("cpu"))
    assert held() is None
