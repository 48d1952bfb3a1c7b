#!/usr/bin/env python3
"""Text files, folders and JSONL become a token file for zero_launch, by a model's tokenizer.json; and back.

    scripts/make_tokens.py --tokenizer models/Llama-3.2-1B --out corpus.tok corpus/ more.jsonl
    scripts/make_tokens.py --tokenizer models/Llama-3.2-1B --decode corpus.tok > corpus.txt
    zero_launch generate runs/mine --prompt "5 17 3" | scripts/make_tokens.py --tokenizer DIR --decode -

Needs PyPI's tokenizers. Every file is a document, and every line of a .jsonl file; each is encoded as transformers does, with
what the tokenizer puts around a text, and ends in the separator. Memory is bounded, whatever the corpus.
"""

import argparse
import os
import sys
import time

from tokens.child import load
from tokens.corpus import PIECE_CHARS, separator_of, tokenize, vocabulary_of
from tokens.documents import files_in
from tokens.problem import Problem
from tokens.token_files import MOST_TOKENS, TokenWriter, read_tokens


def load_tokenizer(folder):
    """The tokenizer of a model's folder, or of a tokenizer.json; and the folder."""
    try:
        import tokenizers
    except ImportError:
        raise Problem("Python has no tokenizers", sys.executable, "pip install tokenizers") from None
    path = os.path.join(folder, "tokenizer.json") if os.path.isdir(folder) else folder
    if not os.path.exists(path):
        raise Problem("there is no tokenizer.json", folder, "name a model's folder that has one with --tokenizer")
    return load(tokenizers, path), os.path.dirname(path)


class Progress:
    """A line on a terminal that tells how far it is."""

    def __init__(self, total_bytes):
        self.total, self.done, self.begin, self.shown = total_bytes, 0, time.monotonic(), 0

    def __call__(self, num_bytes):
        self.done += num_bytes
        now = time.monotonic()
        if sys.stderr.isatty() and now - self.shown > 0.25:
            self.shown = now
            rate = self.done / max(now - self.begin, 1e-9)
            left = (self.total - self.done) / max(rate, 1)
            print(f"\r{self.done / self.total:6.1%}  {rate / 1e6:.1f} MB/s  {left:.0f} s left   ", end="",
                  file=sys.stderr, flush=True)

    def end(self):
        if self.shown:
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


def make(arguments):
    tokenizer, folder = load_tokenizer(arguments.tokenizer)
    separator = separator_of(tokenizer, folder, arguments.separator)
    files = list(files_in(arguments.paths))
    progress = Progress(sum(os.path.getsize(file) for file in files) or 1)
    vocabulary = vocabulary_of(tokenizer)
    writer = TokenWriter(arguments.out, vocabulary, arguments.tokens_per_file)
    try:
        num_documents = tokenize(tokenizer, separator.ids, files, writer, progress, arguments.text_key,
                                 arguments.piece_chars)
    finally:
        progress.end()
    print(f"{', '.join(writer.paths)}: {writer.num_tokens:,} tokens of {num_documents:,} document(s), "
          f"{progress.done / writer.num_tokens:.2f} bytes each; vocabulary {vocabulary:,}, "
          f"uint{8 * writer.bytes_per_token}; separator {separator.shown(tokenizer)}")


def decode(arguments):
    """Ids that the tokenizer does not know are shown as <id>."""
    tokenizer, _ = load_tokenizer(arguments.tokenizer)
    from tokenizers.decoders import DecodeStream
    stream = DecodeStream(skip_special_tokens=False)
    for tokens in read_tokens(arguments.decode):
        for token in tokens:
            known = tokenizer.id_to_token(token) is not None
            text = stream.step(tokenizer, token) if known else f"<{token}>"
            sys.stdout.buffer.write((text or "").encode("utf-8"))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="a model's folder, or its tokenizer.json")
    parser.add_argument("--out", help="the token file to write")
    parser.add_argument("--decode", metavar="FILE", help="print the text of a token file, or of numbers of tokens; - is standard input")
    parser.add_argument("--text-key", "--field", default="text", help="the key of a JSONL line's text (text)")
    parser.add_argument("--separator", metavar="TOKEN",
                        help="behind each document, or none; the model's end of text, if not given")
    parser.add_argument("--tokens-per-file", type=int, default=MOST_TOKENS, help="a file's most (2,147,483,647)")
    parser.add_argument("--piece-chars", type=int, default=PIECE_CHARS, help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help="text files, folders, .jsonl files")
    arguments = parser.parse_args()
    if (arguments.decode is None) == (not arguments.paths) or bool(arguments.paths) != (arguments.out is not None):
        parser.error("give either --out FILE and paths, or --decode FILE")
    try:
        make(arguments) if arguments.paths else decode(arguments)
    except Problem as problem:
        sys.exit(f"make_tokens.py: {problem}")
    except OSError as error:
        sys.exit(f"make_tokens.py: {Problem(error.strerror or str(error), error.filename or '', 'another path, or room on its disk')}")


if __name__ == "__main__":
    main()
