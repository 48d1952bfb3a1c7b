"""Wrong input: what, where and what to try, as zero_launch tells it."""


class Problem(Exception):
    def __init__(self, what, where="", cure=""):
        lines = [what] + [f"  {name:6} {text}" for name, text in (("where:", where), ("try:", cure)) if text]
        super().__init__("\n".join(lines))


def byte_of(path, byte, line):
    return f"{path}, line {line}, byte {byte}"
