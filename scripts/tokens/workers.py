"""Work in batches: beside what uses it, or shared by processes, which are copies of this one, made before it has threads."""
import os
import pickle
from collections import deque, namedtuple
from concurrent.futures import ThreadPoolExecutor

from tokens.problem import MachineProblem

MOST = 8  # of more cores each has several
AHEAD = 2  # batches that one process has begun
BATCH_SIZE = 1 << 20


def num_workers():
    """0: this process alone."""
    count = min(len(os.sched_getaffinity(0)), MOST)
    return count if count > 1 else 0


Given = namedtuple("Given", "words")


class Worker:
    """make_work(*words) of the Given, which is sent first, gives what is called with each batch."""

    def __init__(self, make_work, num_threads):
        to_worker, from_worker = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(to_worker[1])
            os.close(from_worker[0])
            os.close(0)
            os.close(1)  # whose other end hears of this process's parent alone
            os.environ["RAYON_NUM_THREADS"] = str(num_threads)
            serve(make_work, os.fdopen(to_worker[0], "rb"), os.fdopen(from_worker[1], "wb"))
        os.close(to_worker[0])
        os.close(from_worker[1])
        self.outbox, self.inbox = os.fdopen(to_worker[1], "wb"), os.fdopen(from_worker[0], "rb")

    def send(self, message):
        try:
            pickle.dump(message, self.outbox, pickle.HIGHEST_PROTOCOL)
            self.outbox.flush()
        except BrokenPipeError:
            self.fail()

    def receive(self):
        try:
            error, answer = pickle.load(self.inbox)
        except (EOFError, pickle.UnpicklingError):
            self.fail()
        if error:
            raise error
        return answer

    def forget(self):
        try:
            self.receive()
        except Exception:
            pass

    def fail(self):
        raise MachineProblem("a process that makes tokens has died", cure="look for what ended it, such as a lack of memory")


def serve(make_work, inbox, outbox):
    work = None
    while True:
        try:
            message = pickle.load(inbox)
        except EOFError:
            os._exit(0)
        try:
            if isinstance(message, Given):
                work = make_work(*message.words)
                continue
            answer = None, work(message)
        except Exception as error:
            answer = error, None
        pickle.dump(answer, outbox, pickle.HIGHEST_PROTOCOL)
        outbox.flush()


def batches_of(items, size_of):
    """Lists of items, as many bytes or characters at a time as keep all cores busy."""
    batch, size = [], 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if size >= BATCH_SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def start_workers(make_work, count):
    return [Worker(make_work, max(len(os.sched_getaffinity(0)) // count, 1)) for _ in range(count)]


def done_by(workers, words, batches):
    """What each batch becomes, in their order. A worker has one batch at a time: so nobody waits to be read while it writes."""
    for worker in workers:
        worker.send(Given(words))
    busy, idle = deque(), deque(workers)

    def next_answer():
        idle.append(busy.popleft())
        return idle[-1].receive()

    try:
        for batch in batches:
            if not idle:
                yield next_answer()
            worker = idle.popleft()
            worker.send(batch)
            busy.append(worker)
        while busy:
            yield next_answer()
    finally:
        for worker in busy:  # who comes next wants answers of its own
            worker.forget()


def done_here(work, batches):
    """The same in this process. tokenizers holds no lock of Python: one batch is encoded while others are rendered."""
    with ThreadPoolExecutor(AHEAD) as beside:
        coming = deque()
        for batch in batches:
            coming.append(beside.submit(work, batch))
            if len(coming) > AHEAD:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
