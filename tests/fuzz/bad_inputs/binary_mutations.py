"""Ways to break bytes and plain data, for the formats of `binary_inputs.py`.

In: a random generator, and bytes or what `json.loads` gives. Out: the same with a few things wrong,
near numbers that matter.
"""

import json
import random
from typing import Any

NUMBERS = (0, 1, 2, 7, 8, 64, 255, *(1 << bits for bits in (15, 16, 31, 32, 48, 62, 63)))
"""Near these a length or a place can go wrong."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", "f32", [], {}, [1], {"a": 1}, 0.5, -0.0, 1e308, 1e-320),
    *(float("inf"), float("nan"), "\n\x1b[31m", "\ud800", "x" * 300, [[[[[]]]]]),
)


def number(chance: random.Random) -> int:
    """A number near one that matters."""
    return chance.choice(NUMBERS) + chance.choice((-1, 0, 0, 1))


def broken_bytes(chance: random.Random, data: bytes, most: int = 4) -> bytes:
    """Bytes with some changed, put in, taken out, cut off or repeated."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, most)):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(7):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(changed):
                changed[place] = chance.randrange(256)
            case 2:
                wide = chance.choice((2, 4, 8))
                place -= place % wide
                changed[place : place + wide] = (number(chance) % (1 << 8 * wide)).to_bytes(
                    wide, "little"
                )
            case 3:
                del changed[place : place + chance.choice((1, 4, 8, 64))]
            case 4:
                changed[place:place] = changed[place : place + chance.choice((1, 4, 8, 64))]
            case 5:
                changed[place:place] = chance.randbytes(chance.choice((1, 4, 16)))
            case _:
                if chance.random() < 0.1:
                    del changed[place:]
    return bytes(changed)


def broken_data(chance: random.Random, data: Any) -> Any:
    """Plain data in which one thing is another, gone, or twice there; `data` stays as it is."""
    if isinstance(data, dict) and data and chance.random() < 0.9:
        return _broken_object(chance, dict(data))
    if isinstance(data, list) and data and chance.random() < 0.9:
        changed = list(data)
        place = chance.randrange(len(changed))
        match chance.randrange(8):
            case 0:
                del changed[place]
            case 1:
                changed.insert(place, changed[place])
            case 2:
                changed.insert(place, _other(chance))
            case _:
                changed[place] = broken_data(chance, changed[place])
        return changed
    return _other(chance)


def _broken_object(chance: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    name = chance.choice(list(data))
    match chance.randrange(8):
        case 0:
            del data[name]
        case 1:
            data[chance.choice(("", "x", name + "x", name.upper(), "__class__"))] = data.pop(name)
        case 2:
            data[name] = data[chance.choice(list(data))]
        case _:
            data[name] = broken_data(chance, data[name])
    return data


def _other(chance: random.Random) -> Any:
    return number(chance) if chance.random() < 0.4 else chance.choice(VALUES)


def broken_json(chance: random.Random, text: bytes) -> bytes:
    """A text of JSON that says something else, or is none."""
    if chance.random() < 0.2:
        return broken_bytes(chance, text)
    data = json.loads(text)
    for _ in range(chance.choice((1, 1, 2, 4))):
        data = broken_data(chance, data)
    return json.dumps(data).encode()
