"""Conversations, prompts with completions and texts become examples: tokens, and which of them are trained.

Beside the token files there are targets.u8, a byte for each token, 1 where it is trained, and examples.idx: for each example
the place of its first token (int64), the number of its file and its line (int32 each), all little-endian; then one more entry,
whose place is behind the last token.
"""
import os
import re
import struct
from array import array
from collections import namedtuple
from datetime import datetime
from functools import cached_property
from threading import Lock

from tokens.corpus import ids_around, require_ids_below
from tokens.documents import decoded_blocks
from tokens.json_lines import Input, Wrong, is_json_lines, object_of, read_lines
from tokens.problem import DataProblem, WrongLines
from tokens.shapes import Chat, Pair, Text, chat, shape_named, shape_of
from tokens.targets import end_of_turn, ends_of, first_from, first_of, mask_of, special_spellings, turns_of
from tokens.template import BEGIN, DIGITS, END, ChatTemplate
from tokens.turns import Rendered, Span, render, render_parts
from tokens.workers import batches_of

GUARD = "\ufdd2"  # within a special token that a content spells
MARKS = {BEGIN, END, GUARD, *DIGITS}

# How text becomes examples. date: of strftime_now(). special: "error" or "text", for contents that spell special tokens.
Manner = namedtuple("Manner", "text_key train_on end_of_turn date special")

# A text to encode, and what it came from: the number of its file, its line and the byte at which that begins.
Line = namedtuple("Line", "text spans kind place")
Place = namedtuple("Place", "file line byte")
Example = namedtuple("Example", "ids mask place")
WrongLine = namedtuple("WrongLine", "what cure place")


def first_shape(path, key):
    """The name of what a file's first line holds. What is wrong is told later, of all lines."""
    for _, _, record in read_lines(path, lambda record: record, lambda _: None, WrongLines(path)):
        return shape_of(record, key)
    return key


def are_examples(files, key):
    """Or texts that are joined to one row of tokens."""
    return any(is_json_lines(path) and first_shape(path, key) != key for path in files)


class Reader:
    """What lines hold becomes texts."""

    def __init__(self, tokenizer, folder, separator, manner):
        self.folder, self.manner, self.template, self.opening = folder, manner, None, Lock()
        self.specials = re.compile("|".join(map(re.escape, special_spellings(tokenizer))) or "(?!)")
        self.tokenizer, self.ends = tokenizer, ends_of(tokenizer, separator, manner.end_of_turn)

    def rendered(self, sample):
        if isinstance(sample, Text):
            return Text, Rendered(sample.text, [Span(0, len(sample.text), None)])
        if isinstance(sample, Pair):
            text = sample.prompt + sample.completion
            return Pair, Rendered(text, [Span(len(sample.prompt), len(text), None)])
        self.open_template()
        return Chat, render(self.template, self.guarded(sample), self.manner.train_on)

    def open_template(self):
        with self.opening:
            if self.template is None:
                self.template = ChatTemplate(self.folder, datetime.fromisoformat(self.manner.date))
                self.ends = self.learn_ends()

    def question(self, asked):
        """A user's words, or a record with messages, with what makes the model answer."""
        self.open_template()
        words = isinstance(asked, str)
        messages = [{"role": "user", "content": asked}] if words else asked["messages"]
        sample = self.guarded(chat({} if words else asked, messages, is_trained=False), model_may=True)
        return render_parts(self.template, sample, prompts=True)[1]

    def guarded(self, sample, model_may=False):
        """Special tokens in contents are refused, or kept from being ones. model_may: not refused in what a model has said."""
        def guard(value, special=self.manner.special):
            if isinstance(value, str):
                return self.guarded_text(value, special)
            if isinstance(value, list):
                return [guard(item, special) for item in value]
            if isinstance(value, dict):
                return {guard(key, special): guard(item, special) for key, item in value.items()}
            return value

        def guard_message(message):
            special = "text" if model_may and message["role"] == "assistant" else self.manner.special
            return {guard(key, special): guard(value, special) if key != "role" else value for key, value in message.items()}
        messages = [guard_message(message) for message in sample.messages]
        return Chat(messages, guard(sample.tools), guard(sample.documents), guard(sample.given))

    def guarded_text(self, text, special):
        if MARKS & set(text):
            raise Wrong("the line has characters from U+FDD0 to U+FDEF, which are none")
        found = self.specials.search(text)
        if found and special != "text":
            raise Wrong(f"a message spells the special token {found[0]}", "--special-in-content text, to learn it as text")
        return self.specials.sub(lambda word: word[0][0] + GUARD + word[0][1:], text) if found else text

    def learn_ends(self):
        """Turns that call tools may hold special tokens: such a turn ends as a plain one does."""
        try:
            probe = chat({}, [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
            text, spans = render(self.template, probe, "assistant")
            encoding = self.tokenizer.encode(text, add_special_tokens=False)
            last = end_of_turn(text, encoding.ids, encoding.offsets, spans[-1], self.ends)
            return self.ends._replace(closing={encoding.ids[last - 1]})
        except Wrong:  # told of the lines themselves
            return self.ends


class GuardedEncoder:
    """Encodes a text whose guarded special tokens are to stay text."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    @cached_property
    def words(self):
        return special_spellings(self.tokenizer)

    @cached_property
    def plain(self):
        """A copy, which takes a second where there are many words."""
        plain = type(self.tokenizer).from_str(self.tokenizer.to_str())
        plain.encode_special_tokens = True
        return plain

    def __call__(self, text):
        """The bare text, its ids and their offsets."""
        bare, ids, offsets = "", [], []

        def add(piece, tokenizer):
            nonlocal bare
            encoding = tokenizer.encode(piece, add_special_tokens=False)
            ids.extend(encoding.ids)
            offsets.extend((len(bare) + begin, len(bare) + end) for begin, end in encoding.offsets)
            bare += piece

        # Each part but the last ends in the first character of a special token, and the next one begins with the rest.
        rest, *parts = text.split(GUARD)
        for part in parts:
            word = next(word for word in self.words if (rest[-1:] + part).startswith(word))
            add(rest[:-1], self.tokenizer)
            add(word, self.plain)
            rest = part[len(word) - 1:]
        add(rest, self.tokenizer)
        return bare, ids, offsets


def without_guards(text, spans):
    """The spans in the bare text."""
    def place(at):
        return at and at - text.count(GUARD, 0, at)
    return [Span(*map(place, span)) for span in spans]


class Work:
    """Raw lines become Examples. shapes: of each file, by name; vocabulary: what the model has, None: enough."""

    def __init__(self, tokenizer, folder, separator, manner, shapes, vocabulary):
        self.tokenizer, self.guarded, self.vocabulary = tokenizer, GuardedEncoder(tokenizer), vocabulary
        self.reader = Reader(tokenizer, folder, separator, manner)
        self.shapes = [shape_named(name, manner.text_key) for name in shapes]
        self.before, self.behind = ids_around(tokenizer, separator)

    def __call__(self, batch):
        """(Place, bytes of a line, or the text of a file that is one) each -> Examples and WrongLines, without empty lines."""
        lines = [self.read(place, raw) for place, raw in batch]
        lines = [line for line in lines if line]
        texts = [line.text for line in lines if isinstance(line, Line)]
        encodings = iter(self.encoded(texts))
        return [self.example(line, next(encodings)) if isinstance(line, Line) else line for line in lines]

    def encoded(self, texts):
        """None for a text that the tokenizer has no tokens for."""
        try:
            return self.tokenizer.encode_batch(texts, add_special_tokens=False)
        except Exception:
            return [self.encoded([text])[0] for text in texts] if len(texts) > 1 else [None]

    def read(self, place, raw):
        if isinstance(raw, str):
            return Line(raw, [Span(0, len(raw), None)], Text, place)
        try:
            value = object_of(raw)
            if value is None:
                return None
            kind, rendered = self.reader.rendered(self.shapes[place.file](value))
            return Line(rendered.text, rendered.spans, kind, place)
        except Wrong as error:
            return WrongLine(error.what, error.cure, place._replace(byte=place.byte + error.byte))

    def example(self, line, encoding):
        try:
            ids, mask = self.trained(line, encoding)
        except Wrong as error:
            return WrongLine(error.what, error.cure, line.place)
        if self.vocabulary:
            require_ids_below(self.vocabulary, ids, self.tokenizer)
        return Example(array("I", ids), bytes(mask), line.place)

    def trained(self, line, encoding):
        if encoding is None:
            raise Wrong("the tokenizer cannot encode this text", "the model's own tokenizer")
        text, ids, offsets, spans = line.text, encoding.ids, encoding.offsets, line.spans
        if line.kind is Chat and GUARD in text:
            spans = without_guards(text, spans)
            text, ids, offsets = self.guarded(text)
        if line.kind is Chat and self.reader.manner.train_on != "all":
            trained = turns_of(text, ids, offsets, spans, self.reader.ends)
        else:
            trained = [(first_of(text, offsets, span), first_from(offsets, span.end)) for span in spans]
        mask = mask_of(len(ids), trained)
        if line.kind is not Chat:
            ids = self.before + ids + self.behind
            mask = bytes([line.kind is Text]) * len(self.before) + mask + b"\1" * len(self.behind)
        if not any(mask[1:]):
            raise Wrong("nothing in it is trained")
        return ids, mask


class ExampleWriter:
    def __init__(self, tokens, folder):
        self.tokens = tokens
        self.targets = open(os.path.join(folder, "targets.u8.part"), "wb")
        self.index = open(os.path.join(folder, "examples.idx.part"), "wb")
        self.num_examples = self.num_targets = self.longest = 0

    def write(self, ids, mask, file, line):
        self.index.write(struct.pack("<qii", self.tokens.num_tokens, file, line))
        self.tokens.write(ids)
        self.targets.write(mask)
        self.num_examples += 1
        self.num_targets += sum(mask[1:])
        self.longest = max(self.longest, len(ids))

    def finish(self):
        self.index.write(struct.pack("<qii", self.tokens.num_tokens, -1, -1))
        for file in (self.targets, self.index):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.rename(file.name, file.name.removesuffix(".part"))
        self.tokens.finish()

    def discard(self):
        for file in (self.targets, self.index):
            file.close()
            if os.path.exists(file.name):
                os.remove(file.name)
        self.tokens.discard()


def raw_lines(files, on_read):
    """(Place, bytes of a line of JSONL, or the text of another file) each."""
    for number, path in enumerate(files):
        if not is_json_lines(path):
            yield Place(number, 1, 0), "".join(decoded_blocks(path, on_read))
            continue
        at = 0
        with Input(path, on_read) as file:
            for line, raw in enumerate(file, 1):
                yield Place(number, line, at), raw
                at += len(raw)


def shapes_in(files, key):
    """A name for each file; texts that are no JSONL have that of a text."""
    return [first_shape(path, key) if is_json_lines(path) else key for path in files]


def make_examples(work, files, writer, on_read):
    """work(batches): what Work makes of each. Where anything goes wrong no file is left."""
    wrong = [WrongLines(path) for path in files]
    try:
        current = 0
        for made in work(batches_of(raw_lines(files, on_read), lambda line: len(line[1]))):
            for line in made:
                for number in range(current, line.place.file):
                    wrong[number].tell()
                current = line.place.file
                if isinstance(line, WrongLine):
                    wrong[current].add(line.place.line, line.place.byte, line.what, line.cure)
                else:
                    writer.write(line.ids, line.mask, current, line.place.line)
        for number in range(current, len(files)):
            wrong[number].tell()
        if not writer.num_examples:
            raise DataProblem("there is nothing to learn", " ".join(files[:3]))
        writer.finish()
    finally:
        writer.discard()
