"""All models of the zoo."""

from benchmarks.zoo.entry import Entry
from benchmarks.zoo.images import IMAGES
from benchmarks.zoo.sounds import SOUNDS
from benchmarks.zoo.texts import TEXTS

ENTRIES: tuple[Entry, ...] = (*IMAGES, *TEXTS, *SOUNDS)
