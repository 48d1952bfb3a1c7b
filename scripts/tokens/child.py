"""A model's tokenizer, for a program that asks on standard input: a line of JSON for each question, and one for its answer.

    {"open": PATH}     a tokenizer.json                       {"vocab": N}
    {"encode": TEXT}   as transformers does, with what the    {"ids": [...]}
                       tokenizer puts around a text
    {"next": ID}       what one more token adds to a text,    {"text": TEXT}
                       in whole characters

What cannot be done is answered by {"problem": WHAT, "where": WHERE, "try": CURE}. It ends with its input. It opens no file
but those that it was told, no socket, and starts no process.
"""
import json
import sys

ALLOWED = set()


def refuse(event, arguments):
    """For sys.addaudithook: a tokenizer's file is read from anywhere and must not do more than that."""
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn")):
        raise RuntimeError(f"a tokenizer asks for {event}")
    if event == "open" and arguments[0] not in ALLOWED:
        raise RuntimeError(f"a tokenizer opens {arguments[0]}")


def load(tokenizers, path):
    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def vocabulary_of(tokenizer):
    return max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1


class Child:
    def __init__(self, tokenizers):
        self.tokenizers = tokenizers
        self.tokenizer = self.stream = None

    def open(self, path):
        ALLOWED.add(path)
        try:
            self.tokenizer = load(self.tokenizers, path)
        except Exception as error:
            return {"problem": f"tokenizers cannot read this: {error}", "where": path}
        self.stream = self.tokenizers.decoders.DecodeStream(skip_special_tokens=False)
        return {"vocab": vocabulary_of(self.tokenizer)}

    def encode(self, text):
        return {"ids": self.tokenizer.encode(text).ids}

    def next(self, token):
        if self.tokenizer.id_to_token(token) is None:  # of a vocabulary that was padded
            return {"text": f"<{token}>"}
        return {"text": self.stream.step(self.tokenizer, token) or ""}


def answers(child, lines):
    for line in lines:
        (verb, value), = json.loads(line).items()
        try:
            yield getattr(child, verb)(value)
        except Exception as error:
            yield {"problem": f"the tokenizer failed: {error}"}


def main():
    try:
        import tokenizers
        import tokenizers.decoders
    except ImportError:
        print(json.dumps({"problem": "Python has no tokenizers", "where": sys.executable, "try": "pip install tokenizers"}),
              flush=True)
        return
    sys.addaudithook(refuse)
    for answer in answers(Child(tokenizers), sys.stdin):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
