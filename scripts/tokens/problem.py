"""Wrong input: what, where and what to try, as zero_launch tells it."""

MOST_LINES = 20  # that one error tells


class Problem(Exception):
    code = 2  # of the exit: wrong use

    def __init__(self, what, where="", cure=""):
        self.what, self.where, self.cure = what, where, cure
        lines = [what] + [f"  {name:6} {text}" for name, text in (("where:", where), ("try:", cure)) if text]
        super().__init__("\n".join(lines))

    def __reduce__(self):  # for pickle
        return type(self), (self.what, self.where, self.cure)


class MachineProblem(Problem):
    code = 3


class DataProblem(Problem):
    code = 6


class WrongLines:
    """Lines of a file that cannot be used: told together, when there are enough of them or the file ends."""

    def __init__(self, path):
        self.path, self.problems = path, []

    def add(self, line, byte, what, cure=""):
        self.problems.append((line, byte, what, cure))
        if len(self.problems) == MOST_LINES:
            self.tell("at least ")

    def tell(self, about=""):
        if not self.problems:
            return
        line, byte, what, cure = self.problems[0]
        if len(self.problems) == 1:
            raise DataProblem(what, byte_of(self.path, byte, line), cure)
        told = "".join(f"\n  - line {line}, byte {byte}: {what}" for line, byte, what, _ in self.problems)
        raise DataProblem(f"{about}{len(self.problems)} lines cannot be used:{told}", self.path, cure)


def byte_of(path, byte, line):
    return f"{path}, line {line}, byte {byte}"
