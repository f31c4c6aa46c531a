"""Environment variables that turn something on or off.

In: a variable's name, and what holds where it is not set. Out: whether it is on; or a DeviceError
that says which words there are.
"""

import os

from mgn.runtime.errors import DeviceError

_WORDS = {
    "on": True,
    "1": True,
    "true": True,
    "yes": True,
    "off": False,
    "0": False,
    "false": False,
    "no": False,
    "none": False,
}


def switched_on(variable: str, default: bool) -> bool:
    """Whether a variable is on. DeviceError for a word that is neither."""
    word = os.environ.get(variable, "").strip().lower()
    if not word:
        return default
    if word not in _WORDS:
        raise DeviceError(f"{variable} is on or off, not '{word}'")
    return _WORDS[word]
