"""What a folder of Hugging Face says of a model beside its weights.

In: a `tokenizer.json` or its folder, beside which `config.json` and `generation_config.json` lie.
Out: the tokens that end a text, and a program as the configuration has it: sizes, and consts.

    const rms_norm_eps = 1e-5      takes the number of config.json
    const hidden_act = "silu"      is an error where config.json has another text
    const layer_types = "a, b"     is an error where the list is not a, b, a, b, …
"""

import json
from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any, cast

from mgn.diagnostics import MgnError, one_line
from mgn.modules.module import Module

_CONFIGURATION = "config.json"
_ENDINGS = ("generation_config.json", _CONFIGURATION)
_MOST_SAID = 200
_ROTATIONS = ("rope_scaling", "rope_parameters")
"""Objects of a configuration in which older files call `type` what newer ones call `rope_type`."""

_QUANTIZATION = "quantization_config"
_WRONG = "the texts of such a model would be wrong"

Scalar = str | int | float | bool

UNCHANGED: Mapping[str, tuple[Scalar, ...]] = {
    "rope_type": ("default",),
    **dict.fromkeys(_ROTATIONS, ()),
    "partial_rotary_factor": (1,),
    "sliding_window": (),
    "layer_types": ("full_attention",),
    "no_rope_layers": (1,),
    **dict.fromkeys(("attention_bias", "mlp_bias", "qkv_bias", "use_bias", "use_qkv_bias"), (0,)),
    **dict.fromkeys(("use_qk_norm", "qk_layernorm", "alibi", "use_alibi", "clip_qkv"), (0,)),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), ()),
    **dict.fromkeys(("query_pre_attn_scalar", "attention_multiplier"), ()),
    **dict.fromkeys(("embedding_multiplier", "residual_multiplier"), (1,)),
    **dict.fromkeys(("logits_scaling", "logit_scale"), (1,)),
    **dict.fromkeys(("scale_emb", "scale_depth"), (1,)),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), (0,)),
    "scale_attn_weights": (1,),
    "scale_attn_by_inverse_layer_idx": (0,),
    _QUANTIZATION: (),
}
"""Keys of decoders' configurations, as transformers has them, that change what a model computes,
and the values besides null at which they change nothing. A program answers one by a const of its
name.
"""


def configuration_of(path: str | Path) -> Path:
    """The file of a configuration beside a tokenizer; it may not be there."""
    return _beside(path, _CONFIGURATION)


def ending_ids(path: str | Path) -> frozenset[int]:
    """The tokens that end a text, by what lies beside a tokenizer: none where nothing says so."""
    for name in _ENDINGS:
        file = _beside(path, name)
        found = _ids(file, _read_json(file).get("eos_token_id"))
        if found:
            return found
    return frozenset()


def configured(
    module: Module, path: str | Path, dimensions: set[str]
) -> tuple[Module, dict[str, int]]:
    """A program with the numbers of a configuration in its consts that are floats, and the sizes
    that it gives `dimensions` and consts that are integers. MgnError where the program has another
    flag or text in a const. So it is where a number is not finite, or a size not whole. So it is,
    too, where what the configuration asks for changes a model and has no const in the program.
    """
    settings, consts = _Settings(configuration_of(path)), module.consts
    named = dimensions | consts.keys()
    for name, plain in UNCHANGED.items():
        if name not in named:
            settings.check_plain(name, plain)
    floats: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for name in sorted(settings.names & named):
        own = consts.get(name)
        if name in dimensions or type(own) is int:
            # null leaves a size to the program, but turns off what changes a model
            if name in UNCHANGED or settings.value(name) is not None:
                sizes[name] = _whole(settings.scalar(name), name, settings.file)
        elif type(own) is float:
            floats[name] = _finite(settings.scalar(name), own, name, settings.file)
        elif isinstance(own, str | bool) and not _agree(own, said := settings.value(name)):
            raise _other(settings.file, name, said, own)
    return module.with_floats(floats), sizes


class _Settings:
    """What a configuration says by name. What is said in an object of the file counts where the
    file has none of its name itself, as `rope_theta` in `rope_parameters`.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        content = _read_json(file)
        self._found: dict[str, list[Any]] = {}
        for inner in _objects(content):
            for name, value in inner.items():
                values = self._found.setdefault(name, [])
                if not isinstance(value, dict) and value not in values:
                    values.append(value)
        self._found |= {
            name: [value] for name, value in content.items() if not isinstance(value, dict)
        }
        if content.get("use_sliding_window") is False:
            self._found.pop("sliding_window", None)

    @property
    def names(self) -> set[str]:
        """What it has a value for, null included."""
        return {name for name, values in self._found.items() if values}

    def value(self, name: str) -> Any:
        """A value. MgnError where objects of the file give several."""
        values = self._found[name]
        if len(values) > 1:
            listed = " and ".join(map(_shown, values[:3]))
            raise MgnError(f"{self.file}: {name} is {listed}, and a program takes one value")
        return values[0]

    def scalar(self, name: str) -> Scalar | None:
        """A number, flag or text; None for null and lists."""
        value = self.value(name)
        return value if isinstance(value, Scalar) else None

    def check_plain(self, name: str, plain: tuple[Scalar, ...]) -> None:
        """MgnError where a key has another value than those at which it changes nothing."""
        for value in self._found.get(name, ()):
            for item in cast(list[Any], value) if isinstance(value, list) else [value]:
                if item is not None and item not in plain:
                    raise MgnError(
                        f"{self.file}: {name} is {_shown(value)}, and the program has no const "
                        f"{name}: {_WRONG}"
                    )


def _objects(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects in a configuration, those in others too, without itself. One that is kept for
    another purpose than sizes stands for itself alone.
    """
    found: list[dict[str, Any]] = []
    waiting = [content]
    while waiting:
        for key, value in waiting.pop().items():
            if not isinstance(value, dict):
                continue
            inner = cast(dict[str, Any], value)
            if key in _ROTATIONS and "type" in inner:
                inner = {"rope_type": inner["type"], **inner}
            if key == _QUANTIZATION:
                inner = {key: inner.get("quant_method", "unknown")}
            found.append(inner)
            waiting.append(inner)
    return found


def _agree(own: str | bool, said: Any) -> bool:
    """Whether a program's text or flag is what a configuration says. A list repeats the words of a
    text, and has one at least: an empty one says nothing of the layers that a program computes.
    """
    if isinstance(said, list) and isinstance(own, str):
        words = own.split(", ")
        items = cast(list[Any], said)
        agreeing = [item == words[at % len(words)] for at, item in enumerate(items)]
        return bool(items) and all(agreeing)
    return own == (False if said is None and isinstance(own, bool) else said)


def _other(file: Path, name: str, said: Any, own: Scalar) -> MgnError:
    return MgnError(
        f"{file}: {name} is {_shown(said)}, and the program is written for {_shown(own)} "
        f"(const {name}): {_WRONG}"
    )


def _finite(value: Scalar | None, own: float, name: str, file: Path) -> float:
    """A number for a const that is a float."""
    if isinstance(value, str) or value is None:
        raise _other(file, name, value, own)
    try:
        found = float(value)
    except OverflowError:
        found = inf
    if not isfinite(found):
        raise MgnError(f"{file}: {name} is {_shown(value)}, and the program wants a finite number")
    return found


def _whole(value: Scalar | None, name: str, file: Path) -> int:
    if value is None or isinstance(value, str) or value != value // 1:
        said = "null or a list" if value is None else _shown(value)
        raise MgnError(f"{file}: {name} is {said}, and the program wants a whole number")
    return int(value)


def _shown(value: object) -> str:
    return one_line(json.dumps(value), _MOST_SAID)


def _beside(path: str | Path, name: str) -> Path:
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    return folder / name


def _ids(path: Path, value: Any) -> frozenset[int]:
    """The tokens of a number, a list or null. MgnError of anything else: no text would end."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    for item in listed:
        if type(item) is not int:
            raise MgnError(f"{path}: eos_token_id has {_shown(item)}, which numbers no token")
    return frozenset(listed)


def _read_json(path: Path) -> dict[str, Any]:
    """A file's object; an empty one where there is no file. MgnError where it is no JSON."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise MgnError(f"cannot read {path}: {one_line(str(error), _MOST_SAID)}") from None
    if not isinstance(content, dict):
        raise MgnError(f"cannot read {path}: it is no JSON object")
    return content
