"""What a folder of Hugging Face says of a model beside its weights.

In: a `tokenizer.json` or its folder, beside which `config.json` and `generation_config.json` lie.
Out: the tokens that end a text, and a program as the configuration has it: sizes, and consts.

    const rms_norm_eps = 1e-5      takes the number of config.json
    const hidden_act = "silu"      is an error where config.json has another text
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from mgn.diagnostics import MgnError, one_line
from mgn.modules.module import Module

_CONFIGURATION = "config.json"
_ENDINGS = ("generation_config.json", _CONFIGURATION)
_MOST_SAID = 200
_ROTATIONS = ("rope_scaling", "rope_parameters")
"""Objects of a configuration in which older files call `type` what newer ones call `rope_type`."""

Scalar = str | int | float | bool


def ending_ids(path: str | Path) -> frozenset[int]:
    """The tokens that end a text, by what lies beside a tokenizer: none where nothing says so."""
    for name in _ENDINGS:
        found = _ids(_read_json(_beside(path, name)).get("eos_token_id"))
        if found:
            return found
    return frozenset()


def configured(
    module: Module, path: str | Path, dimensions: set[str]
) -> tuple[Module, dict[str, int]]:
    """A program with the numbers of a configuration in its consts that are floats, and the sizes
    that it gives `dimensions` and consts that are integers. MgnError where the program has another
    flag or text in a const, or a size is no whole number.
    """
    file, settings, consts = _beside(path, _CONFIGURATION), _settings(path), module.consts
    floats: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for name in settings.keys() & (dimensions | consts.keys()):
        said, own = settings[name], consts.get(name)
        if name in dimensions or type(own) is int:
            sizes[name] = _whole(said, name, file)
        elif type(own) is float and not isinstance(said, str):
            floats[name] = float(said)
        elif isinstance(own, str | bool | float) and own != said:
            raise MgnError(
                f"{file}: {name} is {_shown(said)}, and the program is written for {_shown(own)} "
                f"(const {name}): the texts of such a model would be wrong"
            )
    return module.with_floats(floats), sizes


def configured_sizes(path: str | Path) -> dict[str, int]:
    """The whole numbers of a configuration by name: sizes of a model. Flags are 0 or 1."""
    return {
        name: int(value)
        for name, value in _settings(path).items()
        if isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    }


def _settings(path: str | Path) -> dict[str, Scalar]:
    """Numbers, flags and texts of the configuration. Those in an object of the file count where the
    file has none of their name itself, as `rope_theta` in `rope_parameters`.
    """
    content = _read_json(_beside(path, _CONFIGURATION))
    found: dict[str, Scalar] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            inner = cast(dict[str, Any], value)
            if key in _ROTATIONS and "type" in inner:
                inner = {"rope_type": inner["type"], **inner}
            found |= _scalars(inner)
    return found | _scalars(content)


def _scalars(items: Mapping[str, Any]) -> dict[str, Scalar]:
    return {name: value for name, value in items.items() if isinstance(value, Scalar)}


def _whole(value: Scalar, name: str, file: Path) -> int:
    if isinstance(value, str) or not float(value).is_integer():
        raise MgnError(f"{file}: {name} is {_shown(value)}, and the program wants a whole number")
    return int(value)


def _shown(value: object) -> str:
    return one_line(json.dumps(value), _MOST_SAID)


def _beside(path: str | Path, name: str) -> Path:
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    return folder / name


def _ids(value: Any) -> frozenset[int]:
    listed = value if isinstance(value, list) else [value]
    return frozenset(item for item in listed if type(item) is int)


def _read_json(path: Path) -> dict[str, Any]:
    """A file's object; an empty one where there is no file. MgnError where it is no JSON."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise MgnError(f"cannot read {path}: {one_line(str(error), _MOST_SAID)}") from None
    return content if isinstance(content, dict) else {}
