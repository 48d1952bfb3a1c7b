"""Text files and JSONL become a token file, by a model's tokenizer, in bounded memory.

Every file is a document, and every line of a .jsonl file; each is encoded as transformers does, with what the tokenizer puts
around a text, and ends in the separator.
"""
import itertools
from collections import namedtuple

from tokens.beside import read_json
from tokens.documents import pieces_of
from tokens.problem import DataProblem, Problem
from tokens.seams import Seams
from tokens.workers import batches_of, done_here

PIECE_CHARS = 1 << 17


class Separator(namedtuple("Separator", "ids origin")):
    """Tokens behind each document, and what told them."""

    def shown(self, tokenizer):
        if not self.ids:
            return "none"
        return " ".join(f"{tokenizer.id_to_token(i)} ({i})" for i in self.ids) + f" by {self.origin}"


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
    for probe in itertools.chain(["a"], tokenizer.get_vocab(with_added_tokens=False)):
        try:
            encoding = tokenizer.encode(probe)
        except Exception:  # it has no token for what it does not know
            continue
        is_around = encoding.special_tokens_mask
        if 0 in is_around:
            return encoding.ids[:is_around.index(0)], encoding.ids[len(is_around) - is_around[::-1].index(0):]
    raise Problem("the tokenizer makes nothing of its own words", cure="another tokenizer.json")


def ids_around(tokenizer, separator):
    """Ids before and behind each text: the tokenizer's own, and the separator, once."""
    before, behind = template_of(tokenizer)
    return before, behind if behind[-len(separator):] == separator else behind + separator


def vocabulary_of(tokenizer):
    return max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1


def encoded(tokenizer, pieces):
    """Pairs of a batch and its encodings, which are made beside what uses them."""
    def encode(batch):
        # The fast way tells no offsets, which pieces need.
        are_whole = all(piece.is_first and piece.is_last for piece in batch)
        call = tokenizer.encode_batch_fast if are_whole else tokenizer.encode_batch
        try:
            return batch, call([piece.text for piece in batch], add_special_tokens=False)
        except Exception:
            for piece in batch:
                require_encodable(tokenizer, piece)
            raise
    return done_here(encode, batches_of(pieces, lambda piece: len(piece.text)))


def require_encodable(tokenizer, piece):
    try:
        tokenizer.encode(piece.text, add_special_tokens=False)
    except Exception as error:
        raise DataProblem(f"the tokenizer cannot encode this text: {error}", piece.where, "the model's own tokenizer") from None


def require_ids_below(vocabulary, ids, tokenizer):
    if ids and max(ids) >= vocabulary:
        raise Problem(f"the tokenizer makes token {max(ids)}, and the model's vocabulary is {vocabulary}",
                      cure=f"the model's own tokenizer; or, for a new model, --vocab of {vocabulary_of(tokenizer)} at least")


def encode(tokenizer, separator, pieces, writer, vocabulary):
    """Returns the number of documents. vocabulary: what the model has; None: enough."""
    before, behind = ids_around(tokenizer, separator)
    num_documents = 0
    seams = Seams(lambda text: tokenizer.encode(text, add_special_tokens=False))
    for batch, encodings in encoded(tokenizer, pieces):
        for piece, encoding in zip(batch, encodings):
            ids = seams.add(piece, encoding)
            ids = (before if piece.is_first else []) + ids + (behind if piece.is_last else [])
            if vocabulary:
                require_ids_below(vocabulary, ids, tokenizer)
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
