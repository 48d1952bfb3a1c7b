"""JSONL: an object on every line."""
import codecs
import gzip
import json
import zlib

from tokens.problem import DataProblem, WrongLines

NO_UTF8 = "the text is not valid UTF-8", "convert the file, for instance with iconv -t utf-8"


class Wrong(Exception):
    """A line that cannot be used: what is wrong, and what to try."""

    def __init__(self, what, cure="", byte=0):
        super().__init__(what)
        self.what, self.cure, self.byte = what, cure, byte  # of the line


class Input:
    """A file's bytes, of gzip unpacked. on_read(count) hears how many were read of the file itself."""

    def __init__(self, path, on_read):
        self.path, self.on_read, self.told = path, on_read, 0
        self.file = open(path, "rb")
        self.bytes = gzip.open(self.file) if path.lower().endswith(".gz") else self.file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def get(self, method, *arguments):
        try:
            block = getattr(self.bytes, method)(*arguments)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataProblem(f"the file is no whole gzip: {error}", self.path, "copy it again") from None
        now = self.file.tell()
        self.on_read(now - self.told)
        self.told = now
        return block

    def read(self, size):
        return self.get("read", size)

    def __iter__(self):
        return iter(lambda: self.get("readline"), b"")


def is_json_lines(path):
    """By its name; FILE.json may hold a list or one object as well."""
    name = path.lower().removesuffix(".gz")
    if not name.endswith(".json"):
        return name.endswith((".jsonl", ".ndjson"))
    with Input(path, lambda _: None) as file:
        lines = (line.removeprefix(codecs.BOM_UTF8) for line in file)
        first = next((line for line in lines if line.strip()), b"")
    if first.lstrip().startswith(b"["):
        raise DataProblem("this is a list, not an object on every line", path, "jq -c .[] FILE > FILE.jsonl")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def object_of(raw):
    """The object of a line; None: the line is empty. Raises Wrong."""
    line = raw.removeprefix(codecs.BOM_UTF8)
    try:
        value = json.loads(line.decode("utf-8").rstrip()) if line.strip() else None
    except UnicodeDecodeError as error:
        raise Wrong(*NO_UTF8, error.start + len(raw) - len(line)) from None
    except (ValueError, RecursionError) as error:
        raise Wrong(f"the line is no JSON: {error}") from None
    if value is not None and not isinstance(value, dict):
        raise Wrong("the line holds no object")
    return value


def require_text(text):
    """JSON may spell what no text can be."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Wrong(f"half of a surrogate pair, \\u{ord(text[error.start]):04x}, is no text") from None


def read_lines(path, use, on_read, wrong=None):
    """(line, byte, what `use` makes of its object) of each line. What raises Wrong is told at the end, or added to `wrong`."""
    found, at = wrong or WrongLines(path), 0
    with Input(path, on_read) as file:
        for line, raw in enumerate(file, 1):
            try:
                value = object_of(raw)
                if value is not None:
                    yield line, at, use(value)
            except Wrong as error:
                found.add(line, at + error.byte, error.what, error.cure)
            at += len(raw)
    if not wrong:
        found.tell()
