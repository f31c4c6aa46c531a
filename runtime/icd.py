"""Make the installed OpenCL drivers visible to the loader, before pyopencl is imported.

In: the environment, the system's vendor files and the pip-installed Intel CPU runtime. Out:
`OCL_ICD_VENDORS` set to a folder of `.icd` files that name them all, and drivers' settings.

The Intel wheel ships a vendor file that names a folder which does not exist, and containers often
hold NVIDIA's driver library without a vendor file: both get one of ours. A variable that the user
has set stays as it is.
"""

import atexit
import contextlib
import ctypes
import hashlib
import importlib.metadata
import os
import shutil
import site
import sys
import tempfile
from pathlib import Path

from mgn.runtime.location import cache_folder, keep_file, kept_file

VENDORS_VARIABLE = "OCL_ICD_VENDORS"
SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
INTEL_PACKAGE = "intel-opencl-rt"
INTEL_LIBRARY = "libintelocl.so"
NVIDIA_LIBRARY = "libnvidia-opencl.so.1"
_MOST_VENDOR_BYTES = 1 << 16

VARIABLES = {
    "CL_CONFIG_CPU_VECTORIZER_MODE": "1",
    "PYOPENCL_NO_CACHE": "1",
}
"""Intel's vectoriser is off: the kernels hold the vectors that they need, and on a sum of scalar
calls, such as `s += fabs(x[i])`, it ends the process. So is pyopencl's cache: it cannot be opened
where the home folder cannot be written, and the kernels have a cache of their own.
"""


def expose_drivers() -> None:
    """Point the OpenCL loader at every driver found; nothing where the user chose, or off Linux."""
    if os.environ.get(VENDORS_VARIABLE) or not sys.platform.startswith("linux"):
        return
    files = vendor_files(SYSTEM_VENDORS)
    if files:
        os.environ[VENDORS_VARIABLE] = str(_write_folder(files))


def settle_variables() -> None:
    """Set the drivers' variables that the user has not set."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)


def vendor_files(system: Path) -> dict[str, str]:
    """File name to content: the system's vendor files and those of ours that they lack."""
    files = read_vendors(system)
    intel = find_intel_library()
    if intel is not None and not any(INTEL_LIBRARY in text for text in files.values()):
        files["mgn-intel-cpu.icd"] = f"{intel}\n"
    if not any("nvidia" in text for text in files.values()) and _loads(NVIDIA_LIBRARY):
        files["mgn-nvidia.icd"] = f"{NVIDIA_LIBRARY}\n"
    return files


def find_intel_library() -> Path | None:
    """The pip-installed Intel CPU runtime's library, where there is one."""
    prefixes = (sys.prefix, site.getuserbase(), sys.base_prefix)
    for prefix in dict.fromkeys(prefixes):
        library = Path(prefix) / "lib" / INTEL_LIBRARY
        if library.is_file():
            return library
    try:
        recorded = importlib.metadata.files(INTEL_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    named = (Path(str(file.locate())).resolve() for file in recorded if file.name == INTEL_LIBRARY)
    return next((library for library in named if library.is_file()), None)


def read_vendors(folder: Path) -> dict[str, str]:
    """What the vendor files of a folder say; one that is no small file of text says nothing."""
    files: dict[str, str] = {}
    for path in sorted(folder.glob("*.icd")):
        data = kept_file(Path(os.path.realpath(path)), _MOST_VENDOR_BYTES)
        with contextlib.suppress(UnicodeDecodeError):
            if data is not None:
                files[path.name] = data.decode()
    return files


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _write_folder(files: dict[str, str]) -> Path:
    """A folder named after its content, so that processes of different environments never clash."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    root = cache_folder()
    if root is not None and _fill(root / "vendors" / digest, files):
        return root / "vendors" / digest
    folder = Path(tempfile.mkdtemp(prefix="mgn-vendors-"))
    atexit.register(_remove, folder, os.getpid())
    _fill(folder, files)
    return folder


def _remove(folder: Path, process: int) -> None:
    """Takes a folder of this process away again; a child that was forked leaves it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path, files: dict[str, str]) -> bool:
    return all(
        kept_file(folder / name, len(text.encode())) == text.encode()
        or keep_file(folder / name, text.encode())
        for name, text in files.items()
    )
