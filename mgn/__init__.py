"""mgn: a tensor compiler for any OpenCL device, in which an e-graph decides."""

from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent
if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "dialects").is_dir():
    __path__.append(str(_CHECKOUT))
