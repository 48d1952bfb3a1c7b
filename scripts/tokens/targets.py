"""Which tokens are trained: those that begin in what the assistant says, and the one that ends it."""
from collections import namedtuple

from tokens.json_lines import Wrong
from tokens.problem import Problem

# Tokens that end a turn; those that end one that calls tools, among which there may be others; of both the model's own end of
# text; the user's own word, or None.
Ends = namedtuple("Ends", "ids closing of_text told")


def ends_of(tokenizer, separator, word):
    """Special tokens and the model's end of text, or the one that `word` names."""
    if word:
        number = tokenizer.token_to_id(word)
        if number is None:
            raise Problem(f"the tokenizer has no token {word}", cure="--end-of-turn TOKEN: one that it has")
        return Ends({number}, {number}, {number}, word)
    ids = set(special_tokens(tokenizer)) | set(separator)
    return Ends(ids, ids, set(separator), None)


def special_tokens(tokenizer):
    """Ids and words."""
    return {number: token.content for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}


def special_spellings(tokenizer):
    """The longest first: one may begin another."""
    return sorted(special_tokens(tokenizer).values(), key=len, reverse=True)


def begins_of(offsets):
    """Where each token begins, and where the last one ends. Tokens follow each other: white space that offsets leave out is the next one's."""
    begins, end = [], 0
    for begin, stop in offsets:
        begins.append(min(begin, end))
        end = max(end, stop)
    return [*begins, end]


def end_of_text(ids, k, ends):
    """Where token k ends a turn: the model's end of text, if it follows behind nothing but special tokens; else k."""
    for later in range(k, len(ids)):
        if ids[later] in ends.of_text:
            return later
        if ids[later] not in ends.ids:
            break
    return k


def end_of_turn(text, ids, begins, span, ends):
    """Behind which token a span ends. begins: of the tokens, and where the text ends."""
    inside = [k for k, begin in enumerate(begins[:-1]) if span.begin <= begin < span.end]
    closed = next((k for k in reversed(inside) if ids[k] in ends.ids), None)
    if closed is not None and not text[begins[closed + 1]:span.end].strip():
        return inside[-1] + 1
    behind = [k for k, begin in enumerate(begins[:-1]) if begin >= span.end and ids[k] in ends.ids]
    if span.limit is None:
        found = [k for k in behind[:1] if not text[span.end:begins[k]].strip()]
    else:
        behind = [k for k in behind if begins[k] < span.limit]
        found = [k for k in behind if ids[k] in ends.closing] or behind
    if found:
        return end_of_text(ids, found[0], ends) + 1
    raise Wrong("no token ends the assistant's turn" if ends.told is None else
                f"the assistant's turn does not end in {ends.told}",
                "--end-of-turn TOKEN; or a chat template that writes one")


def mask_of(text, ids, offsets, spans, ends):
    """True for each token that is trained."""
    begins = begins_of(offsets)
    mask = [False] * len(ids)
    for span in spans:
        last = end_of_turn(text, ids, begins, span, ends)
        for k in range(last):
            mask[k] = mask[k] or begins[k] >= span.begin
    return mask
