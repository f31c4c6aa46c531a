"""Tokens that follow a prompt: those that a loop in NumPy finds, by graphs that keep their caches
on the device; from Python and by the command.
"""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.commands.actions import text_output
from mgn.commands.generate import main
from mgn.modules.module import Module
from mgn.program import Program
from mgn.sizes.ranges import Sizes
from mgn.text.model import LanguageModel
from mgn.text.room import Room, room_of
from tests.conftest import ROOT, run_in_process
from tests.text.folders import (
    CONFIG,
    expected_logits,
    make_folder,
    make_tokenizer,
    make_weights,
)

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
LLAMA = ROOT / "examples" / "llama.mgn"
PROMPT_ROOM, ROOM, TOKENS = 16, 24, 6
SIZES = {name: value for name, value in CONFIG.items() if type(value) is int}
DIMS = SIZES | {"ROOM": ROOM, "tie_word_embeddings": 1}


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The model of a folder, prompts of 16 tokens at most."""
    dims = DIMS | {"S": PROMPT_ROOM}
    graphs = ["prefill", "decode"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MGN_PROGRAM_CACHE", "on")  # the command compiles the same model again
        lm = mgn.compile(mgn.parse_file(LLAMA), graph=graphs, dims=dims, device=DEVICE)
    lm.load_params(make_folder(tmp_path_factory.mktemp("model")))
    return lm


def greedy(
    prompt: list[int], tokens: int, change: Callable[..., Any] = lambda x, _: x
) -> list[int]:
    """The most likely tokens, by the model in NumPy."""
    ids, weights = list(prompt), make_weights()
    for _ in range(tokens):
        ids.append(int(np.argmax(change(expected_logits(weights, ids), ids))))
    return ids[len(prompt) :]


PROMPTS = {"padded": [5, 250, 7], "one token": [299], "all there is room for": list(range(16))}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_greedy_tokens_are_those_of_a_loop_in_numpy(lm: Program, prompt: list[int]) -> None:
    found = list(mgn.generate(lm, np.array(prompt), tokens=TOKENS))
    assert found == greedy(prompt, TOKENS)


def test_repetitions_are_penalised_as_in_numpy_and_stops_end_it(lm: Program) -> None:
    def penalised(logits: np.ndarray, ids: list[int]) -> np.ndarray:
        seen = logits[ids]
        logits[ids] = np.where(seen > 0, seen / 1.5, seen * 1.5)
        return logits

    expected = greedy([3, 4], TOKENS, penalised)
    options: dict[str, Any] = {"tokens": TOKENS, "repetition_penalty": 1.5}
    assert list(mgn.generate(lm, [3, 4], **options)) == expected
    stopped = list(mgn.generate(lm, [3, 4], **options, stop_ids={expected[2]}))
    assert stopped == expected[: expected.index(expected[2])]


def test_a_seed_draws_the_same_tokens_and_another_draws_others(lm: Program) -> None:
    def drawn(seed: int, temperature: float = 1.5) -> list[int]:
        options = {"temperature": temperature, "top_k": 50, "top_p": 0.95, "seed": seed}
        return list(mgn.generate(lm, [5, 6], tokens=TOKENS, **options))

    first = drawn(1)
    kernels = len(lm.companions)
    assert first == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(5)}) > 1
    assert drawn(1, temperature=1e-4) == greedy([5, 6], TOKENS)
    assert len(lm.companions) == kernels


def test_two_texts_at_once_are_refused(lm: Program) -> None:
    first = mgn.generate(lm, [5], tokens=3)
    next(first)
    assert len(list(mgn.generate(lm, [6], tokens=1))) == 1
    with pytest.raises(mgn.MgnError, match="another text was begun"):
        next(first)
    assert list(mgn.generate(lm, [5], tokens=0)) == []


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([], {}, "the prompt has no tokens"),
        ([300], {}, "the prompt has token 300, and the model has 300"),
        ([-1], {}, "the prompt has token -1"),
        ([1] * 17, {"tokens": 1}, "has 17 tokens, and graph 'prefill' was compiled for 16"),
        ([1] * 25, {"tokens": 1}, r"has 25 tokens, and the cache 'model.layers.0.k' has 24 places"),
        ([1] * 16, {"tokens": 10}, "16 tokens and 10 after it are too many, .*: 9 are the most"),
        ([1], {"tokens": -1}, "tokens takes a number of at least 0"),
        ([1], {"tokens": 1, "top_p": 2.0}, "top_p takes"),
    ],
)
def test_what_finds_no_room_is_told_before_anything_runs(
    lm: Program, prompt: list[int], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        mgn.generate(lm, prompt, **options)


def test_what_is_no_model_or_no_prompt_is_a_type_error(lm: Program) -> None:
    with pytest.raises(TypeError, match=r"generate takes what mgn\.compile"):
        mgn.generate(lm["decode"], [1])  # pyright: ignore[reportArgumentType]
    for wrong in ("text", [1.5], [True]):
        with pytest.raises(TypeError, match="ids of tokens"):
            mgn.generate(lm, wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("given", [None, 3, [[1], [2, 3]], "ab"])
def test_what_is_no_list_of_ids_is_a_type_error(lm: Program, given: Any) -> None:
    with pytest.raises(mgn.MgnError, match="a prompt has the ids of tokens"):
        mgn.generate(lm, given)
    with pytest.raises(mgn.MgnError, match="stop_ids has the ids of tokens"):
        mgn.generate(lm, [1, 2, 3], tokens=1, stop_ids=given)


COUNTER = """
    state position: i32[]
    state last: i32[]
    graph prefill[S = 3](tokens: {prefill}) {{
      position <- S
      last <- reshape(tokens, [-1])[S - 1]
      return next = reshape(last + 1, [1])
    }}
    graph decode(token: {decode}) {{
      position <- position + 1
      last <- reshape(token, [])
      return next = reshape(last + position, [1])
    }}
"""


def counter(prefill: str = "i32[1, S]", decode: str = "i32[1]") -> Program:
    """A model that gives the next token itself, and knows where it is."""
    text = COUNTER.format(prefill=prefill, decode=decode)
    return mgn.compile(mgn.parse(text), graph=["prefill", "decode"], device=DEVICE)


@pytest.mark.parametrize("types", [("i32[1, S]", "i32[1]"), ("i32[S]", "i32[]")])
def test_a_short_prompt_goes_through_decode_where_its_length_cannot_be_told(
    types: tuple[str, str],
) -> None:
    program = counter(*types)
    assert list(mgn.generate(program, [7, 8, 9], tokens=4)) == [10, 14, 19, 25]
    assert list(mgn.generate(program, [7, 8], tokens=3)) == [10, 13, 17]
    with pytest.raises(mgn.MgnError, match="return no 'logits'"):
        mgn.generate(program, [1], temperature=1.0)


HALVING = """
    state place: f32[]
    graph prefill[S = 3](tokens: i32[1, S]) {
      place <- 1.0
      return logits = cast(reshape(one_hot(tokens, 9), [S, 9]), f32)
    }
    graph decode(token: i32[1]) {
      place <- place - 0.25
      return logits = cast(one_hot(token, 9), f32) * sqrt(place - 0.4)
    }
"""


@pytest.mark.parametrize("options", [{}, {"temperature": 0.1, "top_k": 3}], ids=str)
def test_logits_that_are_no_numbers_end_a_text_with_an_error(options: dict[str, Any]) -> None:
    program = mgn.compile(mgn.parse(HALVING), graph=["prefill", "decode"], device=DEVICE)
    assert list(mgn.generate(program, [7, 8, 5], tokens=2, **options)) == [5, 5]
    found: list[int] = []
    with pytest.raises(mgn.MgnError, match="no token can follow the 6 before it: a logit is NaN"):
        found.extend(mgn.generate(program, [7, 8, 5], tokens=9, **options))
    assert found == [5, 5, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph prefill(a: i32[3], b: i32[3]) { return logits = cast(a + b, f32) }", "are a, b"),
        ("graph prefill(t: f32[3]) { return logits = t }", r"is f32\[3\], not i32\[1, S\]"),
        ("graph prefill(t: i32[2, 3]) { return logits = cast(t, f32) }", r"is i32\[2, 3\]"),
        (
            "graph prefill(t: i32[3], length: i32[1]) { return logits = cast(t + length, f32) }",
            r"'length' is i32\[1\], not i32\[\]",
        ),
        ("graph prefill(t: i32[3]) { return y = t }", "not y"),
        ("graph prefill(t: i32[3]) { return logits = t }", r"'logits' is i32\[3\], not f32"),
        (
            "graph prefill(t: i32[3]) { return logits = zeros([2, 9]) + cast(t[0], f32) }",
            r"of the last token or f32\[1, 3, V\] of all",
        ),
        ("graph prefill(t: i32[2]) { return next = t[0:1] }", "takes one token"),
    ],
)
def test_graphs_of_no_language_model_are_told_what_they_lack(text: str, message: str) -> None:
    text = text.replace("zeros(", "full(").replace("[2, 9])", "[2, 9], 0.0)")
    several = "graph decode(t: i32[2]) { return next = t[0:1] }"
    one = "graph decode(t: i32[1]) { return next = t }"
    program = mgn.compile(
        mgn.parse(f"{text}\n{several if 'one token' in message else one}"),
        graph=["prefill", "decode"],
        device=DEVICE,
    )
    with pytest.raises(mgn.MgnError, match=message):
        LanguageModel(program)


def room(body: str) -> Room | None:
    return room_of(mgn.parse(f"state k: f32[2, 9, 4]\nstate n: i32[]\n{body}").lower("decode"))


def test_the_room_is_that_of_what_is_written_at_a_counter() -> None:
    write = "k <- dynamic_update_slice(k, reshape(x, [{}, {}, 4]), [{}, {}, 0])"
    head = "graph decode(x: f32[8], at: i32[]) {"
    cases = {
        write.format(2, 1, 0, "n") + "; n <- n + 1": Room(9, "k"),
        write.format(2, 1, 0, "reshape(n, [])") + "; n <- 1 + n": Room(9, "k"),
        write.format(2, 1, 0, "at") + "; n <- n + 1": None,
        write.format(2, 1, 0, "mod(n, 9)") + "; n <- n + 1": None,
        write.format(2, 1, 0, "n") + "; n <- mod(n + 1, 9)": None,
        write.format(1, 2, 0, 0) + "; n <- n + 1": None,
        "k <- k + 1.0; n <- n + 1": None,
    }
    for body, expected in cases.items():
        assert room(f"{head} {body}; return y = x }}") == expected, body


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Hugging Face with a tokenizer."""
    pytest.importorskip("tokenizers")
    folder = make_folder(tmp_path_factory.mktemp("model"))
    make_tokenizer(folder)
    return folder


def text_of(folder: Path, prompt: str, tokens: int) -> str:
    """The text that follows, by the loop in NumPy."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(prompt).ids
    whole = tokenizer.decode([*ids, *greedy(ids, tokens)])
    return whole.removeprefix(prompt).rstrip("\ufffd")


def test_from_a_folder_to_text_in_one_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_PROGRAM_CACHE", "on")
    prompt = "It was a dark"
    run = [str(LLAMA), "--params", str(folder), "--dim", f"ROOM={ROOM}", "--device", DEVICE]
    outcome = run_in_process(main, [*run, "--prompt", prompt, "--tokens", str(TOKENS)])
    assert outcome.status == 0, outcome.stderr
    expected = text_of(folder, prompt, TOKENS)
    assert expected and outcome.stdout == expected + "\n"
    assert "bf16 as f32" in outcome.stderr and "tokens a second" in outcome.stderr


def test_launches_are_merged_on_a_cpu_where_it_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Program] = []

    def compiled(*arguments: Any, **options: Any) -> Program:
        made.append(mgn.compile(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(text_output, "compile", compiled)
    run = [str(LLAMA), "--params", str(folder), "--dim", f"ROOM={ROOM}", "--device", DEVICE]
    run += ["--prompt", "It was a dark", "--tokens", "4"]
    texts = [run_in_process(main, [*run, "--resident", word]).stdout for word in ("on", "off")]
    assert texts[0] == texts[1] == text_of(folder, "It was a dark", 4) + "\n"
    merged, apart = (program["decode"].report.merged for program in made)
    assert merged and not apart


def test_text_comes_in_pieces_from_python(lm: Program, folder: Path) -> None:
    prompt = "It was a dark"
    expected = text_of(folder, prompt, TOKENS)
    pieces = list(mgn.generate_text(lm, folder, prompt, tokens=TOKENS))
    assert "".join(pieces) == expected and len(pieces) > 1
    stop = expected[2:4]
    found = "".join(mgn.generate_text(lm, folder, prompt, tokens=TOKENS, stop=stop))
    assert found == expected[: expected.find(stop)]


def test_a_token_that_the_configuration_calls_the_end_ends_the_text(
    lm: Program, folder: Path, tmp_path: Path
) -> None:
    prompt = "It was a dark"
    make_folder(tmp_path, eos_token_id=[299, greedy(_ids(folder, prompt), 1)[0]])
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    assert list(mgn.generate_text(lm, tmp_path, prompt, tokens=TOKENS)) == []
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 299}')
    assert list(mgn.generate_text(lm, tmp_path, prompt, tokens=1))


def _ids(folder: Path, prompt: str) -> list[int]:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json")).encode(prompt).ids


def test_sizes_that_are_missing_are_explained_by_the_file_that_is(
    folder: Path, tmp_path: Path
) -> None:
    make_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "config.json").unlink()
    outcome = run_in_process(main, [str(LLAMA), "--params", str(tmp_path), "--prompt", "It"])
    assert outcome.status == 1 and not outcome.stdout
    assert f"{tmp_path / 'config.json'} is not there" in outcome.stderr
    assert "dimension 'hidden_size' of graph 'decode' has no value" in outcome.stderr


def test_a_prompt_on_stdin_that_is_no_text_says_where(folder: Path) -> None:
    outcome = run_in_process(main, [str(LLAMA), "--params", str(folder), "--prompt", "-"], b"a\xff")
    assert outcome.status == 1 and not outcome.stdout
    assert outcome.stderr == "error: the prompt on stdin is no UTF-8: byte 1 is 0xff\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompt", "x" * 99], "has 24 places: --dim NAME=N makes the program take more"),
        (["--prompt", ""], "the prompt has no tokens"),
        (["--prompt", "a", "--tokens", "99"], "24 are the most"),
        (["--prompt", "a", "--params", "nowhere"], "cannot read nowhere"),
        (["--prompt", "a", "--params", str(LLAMA.parent)], "examples has no tokenizer.json"),
        (["--prompt", "a", "--top-k", "3"], "--top-k goes with --temperature"),
        (["--prompt", "a", "--top-p", "0.5"], "--top-p goes with --temperature"),
        (["--prompt", "a", "--tokens", "0"], "--tokens takes a number of at least 1"),
        (["--prompt", "a", "--temperature", "-1"], "--temperature takes"),
        (["--prompt", "a", "--tokenizer", "nowhere"], "cannot read nowhere"),
        (["--prompt", "a", "--tokenizer", str(LLAMA)], "is no tokenizer of Hugging Face"),
        (["--prompt", "a", "--dim", "S=0"], "0"),
        ([], "the following arguments are required: --prompt"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    folder: Path, options: list[str], message: str
) -> None:
    run = [str(LLAMA), "--params", str(folder), "--dim", f"ROOM={ROOM}", "--device", DEVICE]
    outcome = run_in_process(main, [*run, *options])
    assert outcome.status == 1 and not outcome.stdout
    assert message in outcome.stderr and "Traceback" not in outcome.stderr


def test_without_a_tokenizer_or_its_library_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path)
    run = [str(LLAMA), "--params", str(folder), "--prompt", "a"]
    assert "which tokenizer?" in run_in_process(main, run).stderr
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    outcome = run_in_process(main, [*run, "--tokenizer", str(folder)])
    assert outcome.status == 1 and "pip install 'mgn-compiler[text]'" in outcome.stderr


def test_the_dimension_of_a_prompt_is_what_there_is_room_for_or_its_length_or_a_power_of_two() -> (
    None
):
    from mgn.commands.actions.text_output import prompt_dims

    def dims(head: str, count: int, room: Room | None = None) -> dict[str, Any]:
        return prompt_dims(Module(mgn.parse(f"{head} {{ return y = tokens }}").source), count, room)

    plain = "graph prefill[S, B = 1](tokens: i32[B, S])"
    padded = "graph prefill[S = 4](tokens: i32[1, S], length: i32[])"
    assert dims(plain, 13) == {"S": 13}
    assert dims(plain, 13, Room(20, "k")) == {"S": Sizes(range(1, 21), 13)}
    assert [dims(padded, count)["S"] for count in (1, 16, 17, 100)] == [16, 16, 32, 128]
    assert dims(padded, 100, Room(110, "k")) == {"S": 110}
    assert dims("graph prefill(tokens: i32[1, 8])", 13) == {}
    assert dims("graph prefill[S = 4](tokens: i32[1, S * 2])", 13) == {}


def test_the_prompt_may_come_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    from mgn.commands.actions.text_output import _prompt

    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines\n"))
    assert _prompt("-") == "two\nlines"
