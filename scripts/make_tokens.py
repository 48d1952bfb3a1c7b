#!/usr/bin/env python3
"""Text files, folders and JSONL become a token file for zero_launch, by a model's tokenizer.json; and back.

    scripts/make_tokens.py --tokenizer models/Llama-3.2-1B --out corpus.tok corpus/ more.jsonl
    scripts/make_tokens.py --tokenizer models/Llama-3.2-1B --decode corpus.tok > corpus.txt
    zero_launch generate runs/mine --prompt "5 17 3" | scripts/make_tokens.py --tokenizer DIR --decode -

Needs PyPI's tokenizers. Every file is a document, and every line of a .jsonl file; each is encoded as transformers does, with
what the tokenizer puts around a text, and ends in the separator. Memory is bounded, whatever the corpus.
"""

import argparse
import json
import os
import sys
import time

from tokens.child import load, vocabulary_of
from tokens.documents import files_in, pieces_of
from tokens.problem import Problem
from tokens.token_files import MOST_TOKENS, TokenWriter, read_tokens

BATCH_CHARS, PIECE_CHARS = 1 << 21, 1 << 17


def load_tokenizer(folder):
    """The tokenizer of a model's folder, or of a tokenizer.json; and the folder."""
    try:
        import tokenizers
    except ImportError:
        raise Problem("Python has no tokenizers", sys.executable, "pip install tokenizers") from None
    path = os.path.join(folder, "tokenizer.json") if os.path.isdir(folder) else folder
    if not os.path.exists(path):
        raise Problem("there is no tokenizer.json", folder, "name a model's folder that has one with --tokenizer")
    try:
        return load(tokenizers, path), os.path.dirname(path)
    except Exception as error:
        raise Problem(f"tokenizers cannot read this: {error}", path) from None


def read_json(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def separator_of(tokenizer, folder, wanted):
    """Ids behind each document, and where they come from. Of a list of ends, the first."""
    if wanted == "none":
        return [], "none"
    if wanted is not None:
        found = tokenizer.token_to_id(wanted)
        if found is None:
            raise Problem(f"the tokenizer has no token {wanted}", folder, "--separator TOKEN, or --separator none")
        return [found], "--separator"
    name = read_json(folder, "tokenizer_config.json").get("eos_token")
    name = name.get("content") if isinstance(name, dict) else name
    if name is not None and tokenizer.token_to_id(name) is not None:
        return [tokenizer.token_to_id(name)], "eos_token of tokenizer_config.json"
    for file in ("generation_config.json", "config.json"):
        ids = read_json(folder, file).get("eos_token_id")
        ids = ids if isinstance(ids, list) else [ids]
        if ids and ids[0] is not None and tokenizer.id_to_token(ids[0]) is not None:
            return ids[:1], f"eos_token_id of {file}"
    raise Problem("nothing tells which token ends a document", folder or ".", "--separator TOKEN, or --separator none")


def template_of(tokenizer):
    """Ids that the tokenizer puts before and behind a text."""
    bare, dressed = (tokenizer.encode("a", add_special_tokens=add).ids for add in (False, True))
    before = next(i for i in range(len(dressed)) if dressed[i:i + len(bare)] == bare)
    return dressed[:before], dressed[before + len(bare):]


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


def batches(pieces):
    """Lists of pieces, as many characters at a time as keep all cores busy."""
    batch, chars = [], 0
    for piece in pieces:
        batch.append(piece)
        chars += len(piece.text)
        if chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def new_ids(piece, encoding):
    """Without the tokens that the piece before had already. A line feed's offsets may be cut to nothing at its end."""
    if not piece.begin:
        return encoding.ids
    offsets = encoding.offsets
    first = next(i for i, (_, end) in enumerate(offsets) if end > piece.begin)
    if offsets[first][0] < piece.begin:
        raise Problem(f"a token joins both sides of {piece.text[piece.begin - 8:piece.begin + 8]!r}",
                      cure="break the documents into several")
    return encoding.ids[first:]


def encode(tokenizer, separator, pieces, writer):
    """Returns the number of documents."""
    before, behind = template_of(tokenizer)
    behind = behind if behind[-len(separator):] == separator else behind + separator
    num_documents = 0
    for batch in batches(pieces):
        encodings = tokenizer.encode_batch([piece.text for piece in batch], add_special_tokens=False)
        for piece, encoding in zip(batch, encodings):
            ids = new_ids(piece, encoding)
            writer.write((before if piece.is_first else []) + ids + (behind if piece.is_last else []))
            num_documents += piece.is_last
    return num_documents


def make(arguments):
    tokenizer, folder = load_tokenizer(arguments.tokenizer)
    separator, origin = separator_of(tokenizer, folder, arguments.separator)
    files = list(files_in(arguments.paths))
    progress = Progress(sum(os.path.getsize(file) for file in files) or 1)
    vocabulary = vocabulary_of(tokenizer)
    writer = TokenWriter(arguments.out, vocabulary, arguments.tokens_per_file)
    try:
        pieces = (piece for file in files for piece in pieces_of(file, arguments.field, progress, arguments.piece_chars))
        num_documents = encode(tokenizer, separator, pieces, writer)
        if not writer.num_tokens:
            raise Problem("there is no text", " ".join(arguments.paths))
        writer.finish()
    finally:
        writer.discard()
        progress.end()
    shown = " ".join(f"{tokenizer.id_to_token(i)} ({i})" for i in separator)
    print(f"{', '.join(writer.paths)}: {writer.num_tokens:,} tokens of {num_documents:,} document(s), "
          f"{progress.done / writer.num_tokens:.2f} bytes each; vocabulary {vocabulary:,}, "
          f"uint{8 * writer.bytes_per_token}; separator {shown or 'none'}{f' by {origin}' if shown else ''}")


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
    parser.add_argument("--field", default="text", help="the key of a JSONL line's text (text)")
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


if __name__ == "__main__":
    main()
