"""What lies beside a model's tokenizer.json."""
import json
import os

from tokens.problem import Problem

READABLE = "--tokenizer DIR: a model's folder whose files can be read"


def read_text(folder, name):
    """None: there is no such file."""
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Problem(f"a file of the tokenizer cannot be read: {error.strerror}", path, READABLE) from None
    except UnicodeDecodeError:
        raise Problem("a file of the tokenizer is not valid UTF-8", path, READABLE) from None


def read_json(folder, name):
    """The object in a file; an empty one: there is none."""
    text = read_text(folder, name)
    try:
        value = {} if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(f"the file is no JSON: {error}", os.path.join(folder, name), "copy it again") from None
    return value if isinstance(value, dict) else {}
