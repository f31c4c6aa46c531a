"""`mgn-generate`: text from a language model, printed as it comes.

In: a program with graphs `prefill` and `decode`, a checkpoint, a tokenizer and a prompt. Out: the
text on stdout, whole characters only; remarks and the rate on stderr.
"""

import argparse
import sys
from collections.abc import Sequence

from mgn.commands.options.checkpoints import add_checkpoint_options, check_checkpoint_options
from mgn.commands.options.errors import UsageError, guarded
from mgn.commands.options.parsers import add_resident_option, make_tidy_parser
from mgn.driver.precision import PRECISIONS

EXAMPLES = """\
examples:
  mgn-generate model.mgn --params folder --prompt "Once upon a time"
  mgn-generate model.mgn --params w.safetensors --tokenizer tokenizer.json --prompt "…" --tokens 64
  mgn-generate model.mgn --params folder --prompt "…" --temperature 0.8 --top-k 40 --seed 7
  echo "Once upon a time" | mgn-generate model.mgn --params folder --prompt -
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command, on the process's own arguments where none are given. Returns the exit status."""
    return guarded(lambda: _generate(make_parser().parse_args(argv)))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_tidy_parser("mgn-generate", "Write text with a language model.", EXAMPLES)
    add = parser.add_argument
    add("file", help="a .mgn or .mlir file with graphs prefill and decode")
    program = parser.add_argument_group("the model")
    add = program.add_argument
    add_checkpoint_options(add, "the initialisers")
    add(
        "--tokenizer",
        metavar="PATH",
        help="a tokenizer.json of Hugging Face, or its folder (default: that of --params)",
    )
    add(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="bind a dimension parameter, or give that of the prompt a range A..B (default: all "
        "lengths that there is room for)",
    )
    text = parser.add_argument_group("the text")
    add = text.add_argument
    add("--prompt", required=True, metavar="TEXT", help="what the text begins with; - is stdin")
    add("--tokens", type=int, metavar="N", help="how many at most (default: 64, or what fits)")
    add(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="how much chance has a say; 0 takes the most likely token (default)",
    )
    add("--top-k", type=int, default=0, metavar="K", help="draw from the K most likely tokens")
    add(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="draw from the fewest tokens whose probabilities come to P",
    )
    add(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="R",
        help="make tokens that there were less likely, such as by 1.1",
    )
    add("--seed", type=int, default=0, metavar="N", help="what chance is drawn from")
    add(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end before this text; may be repeated",
    )
    device = parser.add_argument_group("the device")
    add = device.add_argument
    add("--device", default="auto", metavar="SELECTOR", help="auto, cpu, gpu, 0:1, part of a name")
    add(
        "--precision",
        choices=PRECISIONS,
        default="f32",
        help="what f32 products read is rounded to, and activations stored in (default: f32)",
    )
    add_resident_option(add)
    return parser


def _generate(arguments: argparse.Namespace) -> int:
    check_checkpoint_options(arguments)
    if arguments.tokens is not None and arguments.tokens < 1:
        raise UsageError("--tokens takes a number of at least 1")
    for option, usual in (("top_k", 0), ("top_p", 1.0)):
        if getattr(arguments, option) != usual and not arguments.temperature:
            said = f"--{option.replace('_', '-')} goes with --temperature"
            raise UsageError(f"{said}: at 0 the most likely token is taken")
    from mgn.commands.actions.text_output import write_text

    write_text(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
