"""Tokens that follow a prompt, one at a time.

In: a program with graphs `prefill` and `decode`, and the ids of a prompt. Out: an iterator of ids.
Logits and tokens stay on the device: of each step, only the token's number crosses to the host.

    lm = mgn.compile(mgn.parse_file("model.mgn"), graph=["prefill", "decode"])
    for token in mgn.generate(lm, [5, 7, 11], tokens=64, temperature=0.8, top_k=40): ...
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mgn.api import compile
from mgn.codegen.launch_plan import BufferKind, BufferPlan, OutputPlan
from mgn.diagnostics import MgnError, WrongType, spelled
from mgn.executable import Executable
from mgn.program import Program
from mgn.runtime.launching.device_arrays import DeviceArray
from mgn.text.model import LOGITS, NEXT, LanguageModel, Results, TokenGraph
from mgn.text.sampling import NO_TOKEN, Sampling, sampling_graph


def generate(
    lm: Program,
    ids: Iterable[int],
    *,
    tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    stop_ids: Collection[int] = (),
) -> Iterator[int]:
    """The tokens that a model writes after a prompt: at most so many, or 64 where there is room for
    them, and up to one of `stop_ids`, which is not given.

    The states of the model begin anew. `temperature` 0 takes the most likely token each time; the
    same seed draws the same tokens. MgnError, before anything runs, where the prompt or what
    follows it finds no room.
    """
    sampling = Sampling(temperature, top_k, top_p, repetition_penalty, seed)
    if not isinstance(lm, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        said = "mgn.compile(module, graph=['prefill', 'decode'])"
        raise WrongType(f"generate takes what {said} gives, not {type(lm).__name__}")
    is_count = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0
    if tokens is not None and not is_count:
        raise MgnError(f"tokens takes a number of at least 0, not {tokens!r:.80}")
    prompt, ends = _as_ids("a prompt", ids), frozenset(_as_ids("stop_ids", stop_ids))
    model = LanguageModel(lm)
    if not model.has_logits and not sampling.is_plain:
        plain = spelled("temperature=0 alone", "--temperature 0 alone")
        raise MgnError(
            f"the graphs return no '{LOGITS}', so only the most likely token is known: give {plain}"
        )
    most = model.check(prompt, tokens)
    return _steps(model, prompt, most, sampling, ends)


def _as_ids(what: str, given: Any) -> list[int]:
    """Ids in one list, whatever list or array they came in. WrongType where they are none."""
    said = f"{what} has the ids of tokens, which are integers, not"
    try:
        ids = np.asarray(list(given)).reshape(-1).tolist()
    except (TypeError, ValueError):
        raise WrongType(f"{said} {given!r:.80}") from None
    for item in ids:
        if isinstance(item, bool) or not isinstance(item, int):
            raise WrongType(f"{said} {item!r:.80}")
    return ids


def _steps(
    model: LanguageModel,
    prompt: Sequence[int],
    tokens: int,
    sampling: Sampling,
    stops: frozenset[int],
) -> Iterator[int]:
    """The tokens. While one is looked at, the device computes what the next is drawn from."""
    if not tokens:
        return
    turn = model.program.turn = object()
    choice = _Choice(model, prompt, sampling)
    choice.prepare()
    source, results = model.read(prompt)
    for number in range(tokens):
        if model.program.turn is not turn:
            raise MgnError("another text was begun with this model, whose states this one needs")
        token, chosen_number = choice.next(source, results, len(prompt))
        number_of = chosen_number.begin_numpy()
        if number + 1 < tokens:
            source, results = model.decode, model.decode.run(token)
        chosen = int(number_of().reshape(()))
        if chosen == NO_TOKEN:
            raise MgnError(
                f"no token can follow the {len(prompt) + number} before it: a logit is NaN, or all "
                "are -inf; look for NaN and infinities in the checkpoint, or for another model's"
            )
        if chosen in stops:
            return
        yield chosen


class _Choice:
    """Chooses each next token on the device."""

    def __init__(self, model: LanguageModel, prompt: Sequence[int], sampling: Sampling) -> None:
        self._model = model
        self._sampling = sampling
        self._seen: Any = None
        self._is_seeded = False
        if sampling.penalises:
            self._seen = np.zeros(model.decode.outputs[LOGITS].shape[-1], np.float32)
            self._seen[list(prompt)] = 1

    def next(
        self, source: TokenGraph, results: Results, length: int
    ) -> tuple[DeviceArray, DeviceArray]:
        """The token that follows what `source` gave these results for, and its number, which is
        `NO_TOKEN` where there is none.
        """
        if not self._model.has_logits:
            return results[NEXT], results[NEXT]
        has_row = _has_row(source)
        sampler = self._sampler(source, results[LOGITS])
        inputs: dict[str, Any] = {"logits": results[LOGITS]}
        for name, value in self._sampling.numbers.items():
            inputs[name] = np.array(value, np.float32)
        if has_row:
            inputs["row"] = np.array(length - 1, np.int32)
        if self._seen is not None:
            inputs["seen"] = self._seen
        if self._sampling.draws and not self._is_seeded:
            sampler.seed(self._sampling.seed)
            self._is_seeded = True
        found = sampler.run_on_device(**inputs)
        self._seen = found.get("seen")
        return found["token"], found["number"]

    def prepare(self) -> None:
        """Compiles what chooses, before there is anything to choose from."""
        if self._model.has_logits:
            for source in (self._model.prefill, self._model.decode):
                self._sampler(source, source.outputs[LOGITS])

    def _sampler(self, source: TokenGraph, planned: OutputPlan | DeviceArray) -> Executable:
        """The graph that chooses by logits of such a type, compiled once."""
        has_row = _has_row(source)
        logits = BufferPlan(BufferKind.INPUT, LOGITS, planned.element, planned.shape)
        token = self._model.decode.tokens
        program = self._model.program
        key = (self._sampling.form, logits.element, logits.shape, has_row)
        if key not in program.companions:
            built = sampling_graph(self._sampling, logits, token, has_row)
            program.companions[key] = compile(built, params=program.params)
        return program.companions[key]


def _has_row(source: TokenGraph) -> bool:
    """Whether the sampler is told which row of logits is that of the last token."""
    return source.has_length and source.rows_of(LOGITS) > 1
