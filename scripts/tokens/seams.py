"""The tokens of a long text out of those of its pieces.

A tokenizer treats the ends of a text in its own way: it trims them, and joins there what stands beside. So pieces overlap, and
one follows on another where both have the same tokens, far from the ends of both. Where they have none, they are encoded as
one.
"""
from bisect import bisect_left
from collections import namedtuple
from difflib import SequenceMatcher
from operator import itemgetter

from tokens.problem import DataProblem

ENOUGH = 16  # tokens
Token = namedtuple("Token", "id begin end begins_word")  # a word: what the tokenizer splits a text into first


class Seams:
    """Of one document after another. encode: a text's tokens, with their places."""

    def __init__(self, encode):
        self.encode = encode
        self.held = None  # the piece before, its encoding, and the first of its tokens that were not given yet

    def add(self, piece, encoding):
        """The ids that are certain now."""
        given = []
        if self.held:
            before, earlier, first = self.held
            seam = seam_of(earlier, encoding, len(before.text), piece.overlap)
            if seam and seam[0] >= first:
                given, first = earlier.ids[first:seam[0]], seam[1]
            else:
                piece, encoding, first = self.joined(piece)
        else:
            first = 0
        self.held = None if piece.is_last else (piece, encoding, first)
        return given + (encoding.ids[first:] if piece.is_last else [])

    def joined(self, piece):
        """As one with what is held."""
        before, earlier, first = self.held
        text = before.text + piece.text[piece.overlap:]
        encoding = self.encode(text)
        if first:
            first = first_left(encoding, earlier.ids[first], earlier.offsets[first], piece.where)
        return piece._replace(text=text), encoding, first


def first_left(encoding, wanted, place, where):
    """The first token behind those that were given: the one that is wanted, in its place; else the first that begins there.

    Tokens of blanks alone may be empty, and then several begin there."""
    ids, places = encoding.ids, encoding.offsets
    there = [i for i, (begin, _) in enumerate(places) if begin == place[0]]
    for i in there:
        if (ids[i], places[i]) == (wanted, place):
            return i
    if there and places[there[0] - 1][1] <= place[0]:
        return there[0]
    raise DataProblem("the tokenizer joins all of this text", where, "break it into several documents")


def seam_of(earlier, later, length, overlap):
    """The tokens, one of each piece, from which on the later one's are taken; None: they agree nowhere.

    length: of the earlier piece's text, whose end is the begin of the later one's. A few tokens agree by chance where digits
    are grouped from different places: a run of ENOUGH tells, or all that there is. It is left where a word begins.
    """
    margin, shift = overlap // 4, length - overlap
    window = length - overlap + margin, length - margin
    first, ours = tokens_in(earlier, 0, *window)
    second, theirs = tokens_in(later, shift, *window)
    match = SequenceMatcher(None, ours, theirs, autojunk=False).find_longest_match()
    is_all = match.size == len(ours) == len(theirs)
    if match.size < (2 if is_all else ENOUGH):
        return None
    shared = ours[match.a:match.a + match.size]
    borders = [i for i in range(1, match.size) if shared[i].begin >= shared[i - 1].end]  # not within a character
    words = [i for i in borders if shared[i].begins_word]
    if not borders:
        return None
    at = min(words or borders, key=lambda i: abs(2 * i - match.size))
    return first + match.a + at, second + match.b + at


def tokens_in(encoding, shift, begin, end):
    """The number of the first token that begins in [begin, end), and these tokens. shift: of the text."""
    ids, places, words = encoding.ids, encoding.offsets, encoding.word_ids  # each time a copy
    first = bisect_left(places, begin - shift, key=itemgetter(0))
    last = bisect_left(places, end - shift, lo=first, key=itemgetter(0))
    return first, [Token(ids[i], places[i][0] + shift, places[i][1] + shift, i > 0 and words[i] != words[i - 1])
                   for i in range(first, last)]
