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
    return sorted(filter(None, special_tokens(tokenizer).values()), key=len, reverse=True)


def begin_of(offsets, k):
    """Where token k and what it follows meet, and where the text ends: white space that offsets leave out is the next one's."""
    before = offsets[k - 1][1] if k else 0
    return min(offsets[k][0], before) if k < len(offsets) else before


def first_from(offsets, place):
    """The first token that begins there or later."""
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if offsets[middle][0] < place:
            low = middle + 1
        else:
            high = middle
    return low


def first_of(text, offsets, span):
    """A span's first token: one that joins white space before it to its first word, too."""
    first = first_from(offsets, span.begin)
    if first and offsets[first - 1][1] > span.begin and not text[offsets[first - 1][0]:span.begin].strip():
        return first - 1
    return first


def end_of_text(ids, k, ends):
    """Where token k ends a turn: the model's end of text, if it follows behind nothing but special tokens; else k."""
    for later in range(k, len(ids)):
        if ids[later] in ends.of_text:
            return later
        if ids[later] not in ends.ids:
            break
    return k


def is_closed(text, ids, offsets, span, last, ends):
    """Whether a span has its end inside, and white space at most behind it."""
    for k in reversed(range(last)):
        if ids[k] in ends.ids:
            return begin_of(offsets, k) >= span.begin
        if text[begin_of(offsets, k):span.end].strip():
            break
    return False


def end_behind(text, ids, offsets, k, span, ends):
    """The token, k or a later one, that ends a span; None: there is none."""
    of_call = None  # where none of those ends it that end plain turns
    for k in range(k, len(ids)):
        if ids[k] not in ends.ids:
            continue
        if span.limit is None:
            return None if text[span.end:begin_of(offsets, k)].strip() else k
        if begin_of(offsets, k) >= span.limit:
            break
        if ids[k] in ends.closing:
            return k
        of_call = k if of_call is None else of_call
    return of_call


def end_of_turn(text, ids, offsets, span, ends):
    """Behind which token a span ends."""
    last = first_from(offsets, span.end)
    if is_closed(text, ids, offsets, span, last, ends):
        return last
    found = end_behind(text, ids, offsets, last, span, ends)
    if found is not None:
        return end_of_text(ids, found, ends) + 1
    raise Wrong("no token ends the assistant's turn" if ends.told is None else
                f"the assistant's turn does not end in {ends.told}",
                "--end-of-turn TOKEN; or a chat template that writes one")


def mask_of(num_tokens, stretches):
    """A byte for each token: 1 in stretches of tokens [first, last), which are trained."""
    mask = bytearray(num_tokens)
    for first, last in stretches:
        mask[first:last] = b"\1" * (last - first)
    return mask


def turns_of(text, ids, offsets, spans, ends):
    """The tokens [first, last) of each turn, its end included."""
    return [(first_of(text, offsets, span), end_of_turn(text, ids, offsets, span, ends)) for span in spans]
