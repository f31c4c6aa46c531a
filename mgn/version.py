"""The version of mgn: of the distribution, of the commands' `--version`, of the kernels' cache."""

VERSION = "0.1.0"
