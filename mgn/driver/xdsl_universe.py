"""What stock `xdsl-opt` finds of mgn, by the entry point `xdsl.universe`.

In: the tables of dialects and passes. Out: `UNIVERSE`, with those that xDSL does not bring itself.

    xdsl-opt -p differentiate,simplify,saturate program.mlir
"""

from xdsl.universe import Universe

from mgn.driver.pipelines import PASSES, find_pass
from mgn.modules.dialect_table import DIALECTS, load_dialect
from mgn.plugins.loading import load_plugins

XDSL = "xdsl."
"""Where what xDSL brings itself begins."""


def universe() -> Universe:
    """The dialects and passes of mgn and of its plugins."""
    load_plugins()
    return Universe(
        all_dialects={
            name: lambda name=name: load_dialect(name)
            for name, (module, _) in DIALECTS.items()
            if not module.startswith(XDSL)
        },
        all_passes={
            name: lambda name=name: find_pass(name)
            for name, row in PASSES.items()
            if not row.module.startswith(XDSL)
        },
    )


UNIVERSE = universe()
