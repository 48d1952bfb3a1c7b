"""Text files and JSONL become a token file, by a model's tokenizer, in bounded memory.

Every file is a document, and every line of a .jsonl file; each is encoded as transformers does, with what the tokenizer puts
around a text, and ends in the separator.
"""
import json
import os
from collections import namedtuple

from tokens.documents import pieces_of
from tokens.problem import DataProblem, Problem
from tokens.workers import batches_of, done_here

PIECE_CHARS = 1 << 17


class Separator(namedtuple("Separator", "ids origin")):
    """Tokens behind each document, and what told them."""

    def shown(self, tokenizer):
        if not self.ids:
            return "none"
        return " ".join(f"{tokenizer.id_to_token(i)} ({i})" for i in self.ids) + f" by {self.origin}"


def read_json(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Problem(f"the file is no JSON: {error}", os.path.join(folder, name), "copy it again") from None
    return value if isinstance(value, dict) else {}


def separator_of(tokenizer, folder, wanted):
    """What `wanted` names, a token or none; else the model's end of text. Of a list of ends, the first."""
    if wanted == "none":
        return Separator([], "none")
    if wanted:
        found = tokenizer.token_to_id(wanted)
        if found is None:
            raise Problem(f"the tokenizer has no token {wanted}", folder, "--separator TOKEN, or --separator none")
        return Separator([found], "--separator")
    name = read_json(folder, "tokenizer_config.json").get("eos_token")
    name = name.get("content") if isinstance(name, dict) else name
    if name is not None and tokenizer.token_to_id(name) is not None:
        return Separator([tokenizer.token_to_id(name)], "eos_token of tokenizer_config.json")
    for file in ("generation_config.json", "config.json"):
        ids = read_json(folder, file).get("eos_token_id")
        ids = ids if isinstance(ids, list) else [ids]
        if ids and ids[0] is not None and tokenizer.id_to_token(ids[0]) is not None:
            return Separator(ids[:1], f"eos_token_id of {file}")
    raise Problem("nothing tells which token ends a document", folder or ".", "--separator TOKEN, or --separator none")


def template_of(tokenizer):
    """Ids that the tokenizer puts before and behind a text."""
    bare, dressed = (tokenizer.encode("a", add_special_tokens=add).ids for add in (False, True))
    before = next(i for i in range(len(dressed)) if dressed[i:i + len(bare)] == bare)
    return dressed[:before], dressed[before + len(bare):]


def encoded(tokenizer, pieces):
    """Pairs of a batch and its encodings, which are made beside what uses them."""
    def encode(batch):
        # The fast way tells no offsets, which what follows on another piece needs.
        call = tokenizer.encode_batch if any(piece.begin for piece in batch) else tokenizer.encode_batch_fast
        return batch, call([piece.text for piece in batch], add_special_tokens=False)
    return done_here(encode, batches_of(pieces, lambda piece: len(piece.text)))


def new_ids(piece, encoding):
    """Without the tokens that the piece before had already. A line feed's offsets may be cut to nothing at its end."""
    if not piece.begin:
        return encoding.ids
    offsets = encoding.offsets
    first = next(i for i, (_, end) in enumerate(offsets) if end > piece.begin)
    if offsets[first][0] < piece.begin:
        raise DataProblem(f"a token joins both sides of {piece.text[piece.begin - 8:piece.begin + 8]!r}",
                      cure="break the documents into several")
    return encoding.ids[first:]


def require_ids_below(vocabulary, ids):
    if ids and max(ids) >= vocabulary:
        raise Problem(f"the tokenizer makes token {max(ids)}, and the model's vocabulary is {vocabulary}",
                      cure=f"the model's own tokenizer; or, for a new model, --vocab of {max(ids) + 1} at least")


def encode(tokenizer, separator, pieces, writer, vocabulary):
    """Returns the number of documents. vocabulary: what the model has; None: enough."""
    before, behind = template_of(tokenizer)
    behind = behind if behind[-len(separator):] == separator else behind + separator
    num_documents = 0
    for batch, encodings in encoded(tokenizer, pieces):
        for piece, encoding in zip(batch, encodings):
            ids = new_ids(piece, encoding)
            ids = (before if piece.is_first else []) + ids + (behind if piece.is_last else [])
            if vocabulary:
                require_ids_below(vocabulary, ids)
            writer.write(ids)
            num_documents += piece.is_last
    return num_documents


def tokenize(tokenizer, separator, files, writer, on_read, key="text", piece_chars=PIECE_CHARS, vocabulary=None):
    """`separator` are ids. Returns the number of documents. Where anything goes wrong no file is left."""
    try:
        pieces = (piece for file in files for piece in pieces_of(file, key, on_read, piece_chars))
        num_documents = encode(tokenizer, separator, pieces, writer, vocabulary)
        if not writer.num_tokens:
            raise DataProblem("there is no text", " ".join(files[:3]))
        writer.finish()
        return num_documents
    finally:
        writer.discard()
