"""Documents out of text files, folders and JSONL, each as pieces that encode as the whole would, in bounded memory."""
import codecs
import json
import os
import re
from collections import namedtuple

from tokens.problem import Problem, byte_of

BLOCK_BYTES = 1 << 20
CONTEXT = 64  # characters

# `text` from `begin` on is new; what stands before it was in the piece before, and is there because some tokenizers treat
# the begin of a text in their own way.
Piece = namedtuple("Piece", "text begin is_first is_last")

# Where no tokenizer in use joins what stands on both sides: behind a single line feed, or before a single space.
CUT = re.compile(r"(?<=\S)(?:\n(?=\S)|(?= \S))")


def files_in(paths):
    """All files, folders at any depth in bytewise order, without hidden names, links and empty files in them."""
    for path in paths:
        if not os.path.exists(path):
            raise Problem("the path does not exist", path)
        yield from sorted(files_below(path), key=os.fsencode) if os.path.isdir(path) else [path]


def files_below(folder):
    for entry in os.scandir(folder):
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from files_below(entry.path)
        elif entry.stat().st_size:
            yield entry.path


def pieces_of(path, field, on_read, piece_chars):
    """The pieces of a file's documents: one document, or one per line of a .jsonl file.

    on_read(count) hears of each block of bytes.
    """
    if path.endswith(".jsonl"):
        for text in json_texts(path, field, on_read):
            yield from cut([text], piece_chars)
    else:
        yield from cut(decoded_blocks(path, on_read), piece_chars)


def decoded_blocks(path, on_read):
    """A file's text, a block at a time. Invalid UTF-8 is told by line and byte."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    before, line = 0, 1  # bytes and lines of the blocks before
    with open(path, "rb") as file:
        while True:
            block = file.read(BLOCK_BYTES)
            held = decoder.getstate()[0]
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                at = before - len(held) + error.start
                raise invalid_utf8(path, at, line + (held + block)[:error.start].count(b"\n")) from None
            if not block:
                return
            yield text
            before, line = before + len(block), line + block.count(b"\n")
            on_read(len(block))


def json_texts(path, field, on_read):
    """The `field` of each line's object."""
    at = 0
    with open(path, "rb") as file:
        for line, raw in enumerate(file, 1):
            where = byte_of(path, at, line)
            try:
                record = json.loads(raw.decode("utf-8")) if raw.strip() else None
            except UnicodeDecodeError as error:
                raise invalid_utf8(path, at + error.start, line) from None
            except ValueError as error:
                raise Problem(f"the line is no JSON: {error}", where) from None
            at += len(raw)
            on_read(len(raw))
            if record is None:
                continue
            if not isinstance(record, dict) or not isinstance(record.get(field), str):
                raise Problem(f'the line has no text in "{field}"', where, "name the key with --field")
            try:
                record[field].encode("utf-8")
            except UnicodeEncodeError as error:
                code = ord(record[field][error.start])
                raise Problem(f"half of a surrogate pair, \\u{code:04x}, is no text", where) from None
            yield record[field]


def invalid_utf8(path, byte, line):
    return Problem("the text is not valid UTF-8", byte_of(path, byte, line),
                   "convert the file, for instance with iconv -t utf-8")


def cut(blocks, piece_chars):
    """Pieces of one document. Without a place to cut, a piece grows until there is one."""
    text, begin, is_first = "", 0, True
    for block in blocks:
        text += block
        while found := CUT.search(text, begin + piece_chars):
            yield Piece(text[:found.end()], begin, is_first, False)
            context = max(found.end() - CONTEXT, 0)
            text, begin, is_first = text[context:], found.end() - context, False
    if text:
        yield Piece(text, begin, is_first, True)
