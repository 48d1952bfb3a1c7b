"""A model's tokenizer, for a program that asks on standard input: a line of JSON for each question, and one for its answer.

    {"open": PATH}      a tokenizer.json                      {"vocab": N}
    {"has_template":    whether a chat template is beside it   {"is_there": BOOL}
     true}
    {"encode": TEXT}    as transformers does, with what the   {"ids": [...]}
                        tokenizer puts around a text
    {"encode_open":     the same of a text that goes on,      {"ids": [...]}
     TEXT}              without what is put behind it
    {"next": [N, ID]}   what one more token adds to text N,    {"text": TEXT}
                        of several that grow together, in
                        whole characters; of null what waits
                        at its end
    {"restart": true}   the next token begins a text          {}
    {"decode": IDS}     the text of tokens                     {"text": TEXT}
    {"ask": {"asked":   a user's words, or an object with      {"ids": [[...], [...]]}
     TEXT, "separator": messages, by the chat template, with
     WORD, ...}}        what makes the model answer; and the
                        tokens that end an answer; the rest
                        as of "exemplify"
    {"look":            what stands behind each text: WORD is  {"ids": [...], "word": WORD,
     {"files": [PATH],  a token, none, or "" for the model's    "shown": TEXT,
      "separator": WORD, end of text; and whether the lines     "examples": BOOL}
      "text_key": KEY}} of a file are no texts alone
    {"tokenize":        text files and JSONL become a token    {"tokens": N, "documents": N,
     {"files": [PATH],  file PATH, and more as it is long;      "files": [NAME]}
      "out": PATH,      lines of {"read": N, "written": N}
      "separator": IDS, come before, which tell how many
      "text_key": KEY,  bytes there were since the last;
      "below": N}}      no token is N or more
    {"exemplify":       the same of lines that are examples,   ... "targets": N, "longest": N,
     {..., "train_on":  with examples.py's other files beside   "shapes": [NAME]}
      WORD, "end_of_turn": WORD, "date": DATE, "special": WORD}}

What cannot be done is answered by {"problem": WHAT, "where": WHERE, "try": CURE, "code": EXIT}. It ends with its input.
Examples are made by several processes where there are many cores; `child.py N` chooses how many.
It opens no file but those that it was told and what says more about them beside the tokenizer.json, no socket, and starts no
process.
"""
import errno
import gc
import json
import os
import sys
import sysconfig
import time

if __name__ == "__main__":  # `python3 -I` looks for nothing here
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tokens.beside import READABLE
from tokens.corpus import separator_of, template_of, tokenize, vocabulary_of
from tokens.examples import ExampleWriter, GuardedEncoder, Manner, Reader, Work, are_examples, make_examples, shapes_in
from tokens.json_lines import Wrong, is_json_lines
from tokens.problem import MachineProblem, Problem
from tokens.template import find_templates
from tokens.token_files import TokenWriter
from tokens.workers import done_by, done_here, num_workers, start_workers

ALLOWED = set()
LIBRARIES = tuple(os.path.join(os.path.realpath(path), "") for path in [*sysconfig.get_paths().values(), *sys.path] if path)
BESIDE = "tokenizer_config.json", "generation_config.json", "config.json", "special_tokens_map.json", "chat_template.jinja"
SECONDS_BETWEEN_NEWS = 0.2
NEW_OBJECTS = 1_000_000  # between two looks for cycles


def refuse(event, arguments):
    """For sys.addaudithook: a tokenizer's file is read from anywhere and must not do more than that."""
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "ctypes.")):
        raise RuntimeError(f"a tokenizer asks for {event}")
    if event in ("os.remove", "os.rename") and not is_part(arguments[0]):
        raise RuntimeError(f"a tokenizer asks for {event} of {arguments[0]}")
    if event == "open" and not may_open(*arguments):
        raise RuntimeError(f"a tokenizer opens {arguments[0]}")


def may_open(path, mode, flags):
    if is_part(path):
        return True
    writes = flags & (os.O_WRONLY | os.O_RDWR) if isinstance(flags, int) else set(mode or "r") & set("wax+")
    return not writes and (path in ALLOWED or is_of_python(path))


def is_of_python(path):
    """What is imported later."""
    return isinstance(path, str) and path.endswith((".py", ".pyc")) and os.path.realpath(path).startswith(LIBRARIES)


def is_part(path):
    """Of a token file that is asked for."""
    return isinstance(path, str) and path.endswith(".part") and os.path.dirname(path) + "/" in ALLOWED


def load(tokenizers, path):
    try:
        tokenizer = tokenizers.Tokenizer.from_file(path)
    except Exception as error:
        raise Problem(f"tokenizers cannot read this: {error}", path, READABLE) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def spelled(value):
    """With a half of a surrogate pair as \\uXXXX: JSON for other programs holds none."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def say(answer):
    print(json.dumps({key: spelled(value) for key, value in answer.items()}), flush=True)


class News:
    """How many bytes were read and written, a few times a second."""

    def __init__(self, writer):
        self.writer, self.read, self.told, self.last = writer, 0, 0, time.monotonic()

    def __call__(self, num_bytes):
        self.read += num_bytes
        if time.monotonic() - self.last > SECONDS_BETWEEN_NEWS:
            self.tell()

    def tell(self):
        written = self.writer.num_tokens * self.writer.bytes_per_token
        say({"read": self.read, "written": written - self.told})
        self.read, self.told, self.last = 0, written, time.monotonic()


def encoded(encode, text):
    try:
        return encode(text)
    except Exception as error:
        raise Problem(f"the tokenizer cannot encode this text: {error}", cure="the model's own tokenizer") from None


def manner_of(wanted):
    return Manner(**{name: wanted[name] for name in Manner._fields})


class GrowingText:
    """What tokens add to a text, in whole characters. Bytes that are none become U+FFFD once it is plain that they are."""

    def __init__(self, decode):
        self.decode, self.tokens, self.last, self.shown = decode, [], 0, 0  # of those before `shown`, from `last` on

    def add(self, token):
        self.tokens.append(token)
        text = self.rest()
        return "" if text.endswith("\ufffd") else self.show(text)  # perhaps the beginning of a character

    def finish(self):
        return self.show(self.rest())

    def show(self, text):
        self.last, self.shown = (self.shown, len(self.tokens)) if text else (self.last, self.shown)
        return text

    def rest(self):
        return self.decode(self.tokens[self.last:])[len(self.decode(self.tokens[self.last:self.shown])):]


class Child:
    def __init__(self, tokenizers, workers):
        self.tokenizers, self.workers = tokenizers, workers
        self.tokenizer = self.folder = self.path = None
        self.texts, self.readers = {}, {}
        self.behind = None  # tokens behind each text, once they are asked for

    def open(self, path):
        self.folder, self.path = os.path.dirname(path), path
        ALLOWED.update([path, *(os.path.join(self.folder, name) for name in BESIDE)])
        self.tokenizer = load(self.tokenizers, path)
        self.behind = None
        self.restart()
        return {"vocab": vocabulary_of(self.tokenizer)}

    def has_template(self, _):
        return {"is_there": "default" in find_templates(self.folder)}

    def encode(self, text):
        return {"ids": encoded(self.tokenizer.encode, text).ids}

    def encode_open(self, text):
        if self.behind is None:
            self.behind = template_of(self.tokenizer)[1]
        ids = encoded(self.tokenizer.encode, text).ids
        return {"ids": ids[:len(ids) - len(self.behind)]}

    def next(self, of_text):
        number, token = of_text
        if token is None:
            return {"text": self.texts[number].finish() if number in self.texts else ""}
        if self.tokenizer.id_to_token(token) is None:  # of a vocabulary that was padded
            return {"text": f"<{token}>"}
        if number not in self.texts:
            self.texts[number] = GrowingText(self.text_of)
        return {"text": self.texts[number].add(token)}

    def restart(self, _=None):
        self.texts = {}
        return {}

    def text_of(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def decode(self, ids):
        return {"text": self.text_of(ids)}

    def ask(self, wanted):
        asked, key = wanted.pop("asked"), json.dumps(wanted)
        if key not in self.readers:
            self.readers[key] = self.reader_of_questions(wanted)
        reader, ends = self.readers[key]
        try:
            text = reader.question(asked)
        except Wrong as wrong:
            raise Problem(wrong.what, cure=wrong.cure or "other words") from None
        _, ids, _ = encoded(GuardedEncoder(self.tokenizer), text)
        return {"ids": [ids, sorted(reader.ends.closing | set(ends))]}

    def reader_of_questions(self, wanted):
        """With the tokens that end texts."""
        try:
            ends = separator_of(self.tokenizer, self.folder, wanted["separator"]).ids
        except Problem:  # then the template alone ends turns
            ends = []
        return Reader(self.tokenizer, self.folder, ends, manner_of(wanted)), ends

    def look(self, wanted):
        ALLOWED.update(wanted["files"])
        separator = separator_of(self.tokenizer, self.folder, wanted["separator"])
        word = self.tokenizer.id_to_token(separator.ids[0]) if separator.ids else "none"
        return {"ids": separator.ids, "word": word, "shown": separator.shown(self.tokenizer),
                "examples": are_examples(wanted["files"], wanted["text_key"])}

    def make(self, wanted, work):
        """What `work` makes of the files, a TokenWriter, News and the vocabulary that the model has, if it is smaller."""
        ALLOWED.update([*wanted["files"], os.path.dirname(wanted["out"]) + "/"])
        writer = TokenWriter(wanted["out"], vocabulary_of(self.tokenizer))
        news = News(writer)
        vocabulary = wanted["below"] if writer.vocabulary > wanted["below"] else None
        try:
            answer = work(writer, news, vocabulary)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise MachineProblem("the disk is full", wanted["out"], "--token-cache DIR, on a disk with room") from None
        news.tell()
        return {"tokens": writer.num_tokens, "files": [os.path.basename(path) for path in writer.paths], **answer}

    def tokenize(self, wanted):
        def work(writer, news, vocabulary):
            return {"documents": tokenize(self.tokenizer, wanted["separator"], wanted["files"], writer, news, wanted["text_key"],
                                          vocabulary=vocabulary)}
        return self.make(wanted, work)

    def share(self, given, batches):
        if self.workers:
            return done_by(self.workers, (self.path, given), batches)
        return done_here(Work(self.tokenizer, *given), batches)

    def exemplify(self, wanted):
        def work(tokens, news, vocabulary):
            manner = manner_of(wanted)
            writer = ExampleWriter(tokens, os.path.dirname(wanted["out"]))
            files = wanted["files"]
            shapes = shapes_in(files, manner.text_key)
            given = self.folder, wanted["separator"], manner, shapes, vocabulary
            make_examples(lambda batches: self.share(given, batches), files, writer, news)
            return {"documents": writer.num_examples, "targets": writer.num_targets, "longest": writer.longest,
                    "shapes": sorted({shape for shape, path in zip(shapes, files) if is_json_lines(path)})}
        return self.make(wanted, work)


def work_of(tokenizers):
    """As Worker wants it."""
    def make(path, given):
        keep_in_place()
        child = Child(tokenizers, [])
        child.open(path)
        return Work(child.tokenizer, *given)
    return make


def keep_in_place():
    sys.dont_write_bytecode = True
    gc.set_threshold(NEW_OBJECTS)  # most are offsets of tokens, which no cycle holds
    sys.addaudithook(refuse)


def answers(child, lines):
    for line in lines:
        (verb, value), = json.loads(line).items()
        try:
            yield getattr(child, verb)(value)
        except Problem as problem:
            yield {"problem": problem.what, "where": problem.where or child.path, "try": problem.cure, "code": problem.code}
        except OSError as error:
            yield {"problem": f"the tokenizer cannot go on: {error.strerror}", "where": str(error.filename or "")}
        except Exception as error:
            yield {"problem": f"the tokenizer failed: {type(error).__name__}: {error}"}


def main():
    try:
        import tokenizers
    except ImportError:
        say({"problem": "this Python has no tokenizers", "try": "pip install tokenizers; or --python FILE, one that has them"})
        return
    workers = start_workers(work_of(tokenizers), int(sys.argv[1]) if len(sys.argv) > 1 else num_workers())
    keep_in_place()
    for answer in answers(Child(tokenizers, workers), sys.stdin):
        say(answer)


if __name__ == "__main__":
    main()
