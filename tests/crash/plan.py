"""Which faults meet which calls."""

import itertools
import re
import zlib

from stories import STORIES
from trial import Trial

# The classes of calls that a fault can meet.
KINDS = {"kill": ("changes", "grows", "syncs"), "tear": ("grows",), "eio": ("looks", "changes", "grows", "syncs"),
         "enospc": ("grows", "syncs")}
# Threads decide how many more there are, and in which order.
FIRST_READ_OF_A_SHARD = 20001
TEMPORARY = re.compile(r"zero\.tmp\.(\w+)\.[0-9a-f]{16}")


def calls_of(log):
    """(number, name, class, path) of each call."""
    return [line.split("\t")[:4] for line in log.read_text().splitlines()]


def site_of(call):
    """Calls of the same name on the same kind of file are alike."""
    _, name, _, path = call
    file = path.split("/")[-1]
    return name, "".join(c for c in TEMPORARY.sub(r"\1", file) if not c.isdigit())


def thinned(calls):
    """Of neighbours that are alike, as the writes into a shard are, the first, the middle one and the last."""
    chosen = []
    for _, run in itertools.groupby(calls, key=lambda call: call[1:]):
        run = list(run)
        chosen += [run[i] for i in sorted({0, len(run) // 2, len(run) - 1})]
    return chosen


def sample(calls, most, seed):
    """Of each site the last call, and of these `most`, spread evenly; another seed begins at another one."""
    last = list({site_of(call): call for call in calls}.values())
    begin, count = zlib.crc32(seed.encode()) % len(last), min(most, len(last))
    return [last[(begin + i * len(last) // count) % len(last)] for i in range(count)]


def chosen_calls(calls, kind, seed, options):
    meant = [call for call in calls if call[2] in KINDS[kind] and (kind != "tear" or "write" in call[1])
             and int(call[0]) <= FIRST_READ_OF_A_SHARD]
    if options.short:
        return sample(meant, most=1 if "ranks2" in seed else 3, seed=seed)
    return meant if options.every or options.only else thinned(meant)


def trials_of(story, ranks, exchange, calls, options):
    """`calls` are those of each rank."""
    trials = []
    for kind in [kind for kind in KINDS if options.kind in (None, kind)]:
        for rank, of_rank in enumerate(calls):
            seed = f"{story.name} ranks{ranks} {kind} {rank}"
            trials += [Trial(story, ranks, kind, exchange, rank, int(at), what, f"{name} {path}")
                       for at, name, what, path in chosen_calls(of_rank, kind, seed, options)]
    return [trial for trial in trials if options.only in (None, trial.name())]


def exchanges_of(story, ranks, options):
    """Only a run that replaces a step exchanges names."""
    if not story.saves_one_step():
        return [True]
    return [False] if options.short and ranks == 2 else [True, False]


def groups_of(options):
    """(story, ranks, exchange); a sample has two ranks in two stories."""
    for ranks in (1, 2):
        for story in STORIES if ranks == 1 or not options.short else STORIES[:2]:
            for exchange in exchanges_of(story, ranks, options):
                is_named = not options.only or options.only.startswith(story.prefix(ranks, exchange))
                if is_named and ranks in story.ranks and options.ranks in (None, ranks) and options.story in (None, story.name):
                    yield story, ranks, exchange
