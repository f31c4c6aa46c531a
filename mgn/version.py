"""The version of mgn: of the distribution, of the commands' `--version`, of the kernels' cache.

`DISTRIBUTION` is what was installed: the whole, or the part that runs packages.
"""

VERSION = "0.1.0"
DISTRIBUTION = "mgn-compiler"
