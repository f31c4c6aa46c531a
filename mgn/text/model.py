"""A language model as two graphs of a compiled program, and what they take and give.

In: a `Program` with graphs `prefill` and `decode`. Out: `LanguageModel`, which knows how a prompt
goes in, or an MgnError that says what a graph lacks.

    graph prefill[S](tokens: i32[1, S], length: i32[]) { … return logits }    # length is optional
    graph decode(token: i32[1]) { … return logits }
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferKind, BufferPlan, OutputPlan
from mgn.diagnostics import MgnError, spelled
from mgn.executable import Executable
from mgn.program import Program
from mgn.runtime.host_arrays import DTYPES, spelling
from mgn.runtime.launching.device_arrays import DeviceArray
from mgn.sized_executable import SizedExecutable
from mgn.text.room import Room, room_of

PREFILL, DECODE = "prefill", "decode"
MANY = 64
"""How many tokens follow a prompt where nobody says how many."""

LENGTH, LOGITS, NEXT = "length", "logits", "next"
"""Names that the graphs' inputs and results have."""


Results = Mapping[str, DeviceArray]


@dataclass(frozen=True)
class TokenGraph:
    """One of the two graphs: its input of tokens, how many these are, and what it gives."""

    executable: Executable
    tokens: BufferPlan
    has_length: bool
    outputs: Mapping[str, OutputPlan]

    @property
    def count(self) -> int:
        """The tokens that a run takes; the most, where it takes some."""
        return self.takes[-1]

    @property
    def takes(self) -> Sequence[int]:
        """The numbers of tokens that a run may take. One that is told the length of what it takes
        needs those alone that programs are compiled for.
        """
        if isinstance(self.executable, SizedExecutable):
            plan = self.executable.sizes
            values = plan.sizes.values
            return (plan.buckets or values[-1:]) if self.has_length else values
        return [prod(self.tokens.shape)]

    def run(self, ids: Sequence[int] | DeviceArray) -> Results:
        """A run on tokens, padded to what it takes; those that it takes as they are stay there."""
        planned = self.tokens
        given: Any = ids
        if isinstance(ids, DeviceArray) and (ids.element, ids.shape) != (
            planned.element,
            planned.shape,
        ):
            given = ids.numpy().reshape(-1).tolist()
        if not isinstance(given, DeviceArray):
            count = next(size for size in self.takes if size >= len(given))
            padded = np.zeros(count, DTYPES[planned.element])
            padded[: len(given)] = given
            given = padded.reshape((*planned.shape[:-1], count) if planned.shape else ())
        inputs: dict[str, Any] = {planned.name: given}
        if self.has_length:
            inputs[LENGTH] = np.array(len(ids), np.int32)
        return self.executable.run_on_device(**inputs)

    def rows_of(self, result: str) -> int:
        """The rows of a result, whose last axis has the classes."""
        return prod(self.outputs[result].shape[:-1])


class LanguageModel:
    """The graphs `prefill` and `decode` of a program. MgnError where these are no such graphs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.prefill = _token_graph(program[PREFILL])
        self.decode = _token_graph(program[DECODE])
        if self.decode.count != 1 or self.decode.has_length:
            raise MgnError(f"graph '{DECODE}' takes one token, and no length")
        self.room: Room | None = room_of(program[DECODE].recipe.lower())

    @property
    def has_logits(self) -> bool:
        """Whether both graphs give logits; else they give the next token."""
        return all(LOGITS in item.outputs for item in (self.prefill, self.decode))

    def read(self, prompt: Sequence[int]) -> tuple[TokenGraph, Results]:
        """What the graphs give for a prompt, from the states' first values on, and which graph.

        `prefill` takes a prompt of its length, or a shorter one if it is told the length. One that
        it cannot be told goes through `decode`, a token at a time.
        """
        self.program.reset()
        if self.prefill.has_length or len(prompt) in self.prefill.takes:
            return self.prefill, self.prefill.run(prompt)
        results: Results = {}
        for token in prompt:
            results = self.decode.run([token])
        return self.decode, results

    def check(self, prompt: Sequence[int], tokens: int | None) -> int:
        """How many tokens may follow a prompt: as many as are asked for, or without a wish `MANY`
        or what there is room for. MgnError where the prompt, or what is to follow it, finds none.
        """
        count = len(prompt)
        most = room_for(self.room, count, tokens)
        if count > self.prefill.count:
            raise MgnError(
                f"the prompt has {count} tokens, and graph '{PREFILL}' was compiled for "
                f"{self.prefill.count}: {_made_larger('it')}, by its dimension of the tokens"
            )
        classes = self.decode.outputs[LOGITS].shape[-1] if self.has_logits else 1 << 31
        for token in prompt:
            if not 0 <= token < classes:
                raise MgnError(f"the prompt has token {token}, and the model has {classes}")
        return most


def _made_larger(what: str) -> str:
    return spelled(f"compile {what} for more", f"--dim NAME=N makes {what} take more")


def room_for(room: Room | None, prompt: int, tokens: int | None) -> int:
    """How many tokens may follow a prompt; the last takes no place. MgnError where the prompt, or
    what is asked for, is more than caches have places for.
    """
    if not prompt:
        raise MgnError("the prompt has no tokens; a model needs one to go on from")
    if room is None:
        return MANY if tokens is None else tokens
    left = room.places - prompt + 1
    if prompt <= room.places and (tokens is None or tokens <= left):
        return min(MANY, left) if tokens is None else tokens
    cache = f"the cache '{room.state}' has {room.places} places"
    more = f"{_made_larger('the program')}, by the dimension or const that says how many"
    if prompt > room.places:
        raise MgnError(f"the prompt has {prompt} tokens, and {cache}: {more}")
    raise MgnError(
        f"a prompt of {prompt} tokens and {tokens} after it are too many, since {cache}: "
        f"{left} are the most that can follow; {more}"
    )


def _token_graph(executable: Executable) -> TokenGraph:
    name = executable.plan.name
    inputs = {buffer.name: buffer for _, buffer in executable.plan.of_kind(BufferKind.INPUT)}
    if isinstance(executable, SizedExecutable):
        inputs = {key: item for key, item in inputs.items() if key not in executable.told_names}
    length = inputs.pop(LENGTH, None)
    if len(inputs) != 1:
        listed = ", ".join(inputs) or "none"
        raise MgnError(
            f"graph '{name}' takes tokens, and '{LENGTH}' where prompts are padded; its inputs "
            f"besides are {listed}"
        )
    (tokens,) = inputs.values()
    fits = DTYPES[tokens.element].kind in "iu" and prod(tokens.shape[:-1]) == 1
    if not fits or prod(tokens.shape) == 0:
        said = spelling(tokens.element, tokens.shape)
        raise MgnError(f"graph '{name}': input '{tokens.name}' is {said}, not i32[1, S] of tokens")
    if length is not None and (length.element, length.shape) != ("i32", ()):
        said = spelling(length.element, length.shape)
        raise MgnError(f"graph '{name}': input '{LENGTH}' is {said}, not i32[]")
    outputs = {output.name: output for output in executable.plan.outputs}
    if LOGITS in outputs:
        _check_logits(name, outputs[LOGITS], prod(tokens.shape))
    elif NEXT not in outputs or prod(outputs[NEXT].shape) != 1:
        listed = ", ".join(outputs)
        raise MgnError(
            f"graph '{name}' returns '{LOGITS}', or '{NEXT}', which is one token; not {listed}"
        )
    return TokenGraph(executable, tokens, length is not None, outputs)


def _check_logits(name: str, logits: OutputPlan, tokens: int) -> None:
    """MgnError where logits are not those of the last token, or of each."""
    shape, said = logits.shape, spelling(logits.element, logits.shape)
    is_float = logits.element in ("f64", "f32", "f16", "bf16")
    if not (is_float and shape and shape[-1] and prod(shape[:-1]) in (1, tokens)):
        raise MgnError(
            f"graph '{name}': result '{LOGITS}' is {said}, not f32[1, V] of the last token or "
            f"f32[1, {tokens}, V] of all"
        )
