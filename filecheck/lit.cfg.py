"""lit's view of the FileCheck tests: `lit filecheck` runs what pytest runs in one process."""

import os
import sys
from pathlib import Path

import lit.formats

config.name = "mgn"  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mgn", ".mlir"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.excludes = ["inputs"]  # noqa: F821

_commands = str(Path(sys.executable).parent)
config.environment["PATH"] = os.pathsep.join(  # noqa: F821
    [_commands, config.environment.get("PATH", "")]  # noqa: F821
)
