"""Makes a tokenizer of single characters, as Hugging Face's `tokenizers` write it.

In: texts. Out: `tokenizer.json`, in which each character that occurs is a token; they are numbered
in the order of Unicode.

    python examples/character_gpt/tokenizer.py TEXT... --output tokenizer.json
"""

import argparse
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers


def tokenizer_of(text: str) -> Tokenizer:
    """A tokenizer whose tokens are the characters of a text."""
    vocabulary = {character: number for number, character in enumerate(sorted({*text}))}
    made = Tokenizer(models.WordLevel(vocabulary))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    made.decoder = decoders.Fuse()
    return made


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT")
    parser.add_argument("--output", type=Path, default=Path("tokenizer.json"))
    arguments = parser.parse_args()
    made = tokenizer_of("".join(path.read_text(encoding="utf-8") for path in arguments.texts))
    made.save(str(arguments.output))
    print(f"{arguments.output}: {made.get_vocab_size()} characters")


if __name__ == "__main__":
    main()
