"""Text from language models: tokens drawn on the device, and their text as it comes.

In: a compiled program with graphs `prefill` and `decode`, a tokenizer, and a prompt. Out: token
ids, or pieces of text. `docs/text.md` says what the graphs take and give.
"""
