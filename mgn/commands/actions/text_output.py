"""The main work of `mgn-generate`: a prompt in, the model compiled for it, text out.

In: the arguments. Out: text on stdout, piece by piece; remarks and the rate on stderr. What may
fail for the prompt, the tokenizer or the options is looked at before anything is compiled.
"""

import argparse
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from mgn.api import compile, parse_file
from mgn.commands.options.arguments import parse_sizes
from mgn.commands.options.checkpoints import set_parameters
from mgn.commands.options.errors import UsageError, say
from mgn.diagnostics import DiagnosticsError, MgnError, one_line
from mgn.modules.module import Module
from mgn.sizes.ranges import Sizes, fixed
from mgn.text.configuration import configuration_of, configured, ending_ids
from mgn.text.generation import generate
from mgn.text.model import DECODE, LENGTH, PREFILL, room_for
from mgn.text.room import Room, room_of
from mgn.text.sampling import Sampling
from mgn.text.streaming import TextStream
from mgn.text.tokenizer import TOKENIZER, encoded, load_tokenizer
from mgn.text.writing import pieces

NOTHING: Mapping[str, int] = {}

SHORTEST = 16
"""Tokens that a padded prompt is compiled for at least; longer ones for powers of two."""

UNTIMED = 2
"""Tokens before the rate is measured: the first waits for the prompt, the second for what runs
once."""


def write_text(arguments: argparse.Namespace) -> None:
    """Writes the text that the arguments ask for."""
    options = {
        "temperature": arguments.temperature,
        "top_k": arguments.top_k,
        "top_p": arguments.top_p,
        "repetition_penalty": arguments.repetition_penalty,
        "seed": arguments.seed,
    }
    Sampling(**options)
    place = _tokenizer_place(arguments)
    tokenizer = load_tokenizer(place)
    prompt = encoded(tokenizer, _prompt(arguments.prompt), "the prompt")
    stops = ending_ids(place)
    module = parse_file(arguments.file)
    given = parse_sizes(arguments.dim)
    known = module.dimensions_of(PREFILL) | module.dimensions_of(DECODE)
    module, sizes = configured(module, place, known)
    given = sizes | given
    try:
        of_decode, _ = module.dims_of([DECODE, PREFILL], fixed(given))
        room = room_of(module.lower(DECODE, of_decode))
    except DiagnosticsError:
        if not (file := configuration_of(place)).is_file():
            say(f"{file} is not there, so the program's own sizes count, and those of --dim")
        raise
    room_for(room, len(prompt), arguments.tokens)
    lm = compile(
        module,
        graph=[PREFILL, DECODE],
        dims={
            **prompt_dims(module, len(prompt), room, fixed(given)),
            **expecting(given, len(prompt)),
        },
        device=arguments.device,
        precision=arguments.precision,
        resident=arguments.resident,
    )
    set_parameters(lm, arguments)
    clock = _Clock()
    tokens = generate(lm, prompt, tokens=arguments.tokens, stop_ids=stops, **options)
    stream = TextStream(tokenizer.decode, prompt, arguments.stop)
    for piece in pieces(clock.watch(tokens), stream):
        _write(piece)
    _write("\n")
    say(clock.told(len(prompt)))


def prompt_dims(
    module: Module, count: int, room: Room | None, given: Mapping[str, int] = NOTHING
) -> dict[str, int | Sizes]:
    """The dimension of a prompt's tokens, where it has a name and is not given. It is all numbers
    that there is room for, so that prompts of many lengths share kernels. Where the room is not
    known, it is their number. Where the graph can be told it, a power of two.
    """
    sizes = module.sizes_of(PREFILL)
    names = {item[-1] for name, item in sizes.items() if name != LENGTH and item}
    if len(names) != 1 or (name := names.pop()) is None or name in given:
        return {}
    padded = max(SHORTEST, 1 << (count - 1).bit_length())
    if LENGTH in sizes:
        return {name: padded if room is None else min(padded, room.places)}
    if room is None or count > room.places:
        return {name: count}
    (bound,) = module.dims_of([PREFILL], {**given, name: room.places})
    try:
        module.lower(PREFILL, bound)
    except DiagnosticsError:  # which a table of positions may be too short for
        return {name: count}
    return {name: Sizes(range(1, room.places + 1), count)}


def expecting(given: Mapping[str, int | range], count: int) -> dict[str, int | range | Sizes]:
    """The dimensions that are given; of a range that has it, this size is expected first."""
    return {
        name: Sizes(size, count) if isinstance(size, range) and count in size else size
        for name, size in given.items()
    }


def _tokenizer_place(arguments: argparse.Namespace) -> Path:
    """Where the tokenizer is: as said, or beside the checkpoint."""
    if arguments.tokenizer is not None:
        return Path(arguments.tokenizer)
    remedy = f"--tokenizer names a {TOKENIZER}, or its folder"
    if arguments.params is None:
        raise UsageError(f"which tokenizer? {remedy}")
    path = Path(arguments.params)
    folder = path if path.is_dir() else path.parent
    if (folder / TOKENIZER).is_file():
        return folder
    if not path.exists():
        raise MgnError(f"cannot read {one_line(str(path))}: there is no such file or folder")
    raise UsageError(f"which tokenizer? {one_line(str(folder))} has no {TOKENIZER}: {remedy}")


def _prompt(given: str) -> str:
    """The prompt, from stdin where that is asked for, without the end of its last line."""
    if given != "-":
        return given
    if sys.stdin is None:  # what the interpreter makes of a closed descriptor
        raise UsageError("stdin is closed, and the prompt is read from there")
    stream = getattr(sys.stdin, "buffer", None)
    try:
        text = sys.stdin.read() if stream is None else stream.read().decode()
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{error.object[error.start]:02x}"
        raise MgnError(f"the prompt on stdin is no UTF-8: {byte}") from None
    return text.replace("\r\n", "\n").removesuffix("\n")


def _write(text: str) -> None:
    """Writes a piece at once, with a sign for characters that stdout does not know, and on a
    terminal for those that it would act on.
    """
    if sys.stdout.isatty():
        text = "".join("\ufffd" if _acts(item) else item for item in text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


class _Clock:
    """Notes when tokens come."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._times: list[float] = []

    def watch(self, tokens: Iterator[int]) -> Iterator[int]:
        """The same tokens, timed."""
        for token in tokens:
            self._times.append(time.perf_counter() - self._began)
            yield token

    def told(self, prompt: int) -> str:
        """The counts, the time to the first token, and the rate of those that follow."""
        count = len(self._times)
        said = f"{prompt} tokens of prompt, {count} written"
        if count:
            said += f"; the first after {self._times[0]:.2f} s"
        if count > UNTIMED:
            seconds = self._times[-1] - self._times[UNTIMED - 1]
            said += f", then {(count - UNTIMED) / max(seconds, 1e-9):.1f} tokens a second"
        return said


def _acts(character: str) -> bool:
    """Whether a terminal does something else for a character than show it, or begin a line."""
    return unicodedata.category(character) == "Cc" and character not in "\n\t"
