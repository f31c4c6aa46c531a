"""The optimisers by the names that commands and pipelines give them."""

from mgn.training.optimisers.matrix import Adafactor, Muon
from mgn.training.optimisers.optimisers import SGD, Adam, AdamW, Lion, Optimizer, RMSProp

OPTIMISERS: dict[str, type[Optimizer]] = {
    kind.__name__.lower(): kind for kind in (SGD, Adam, AdamW, Lion, RMSProp, Adafactor, Muon)
}
"""Optimisers by their names in small letters."""
