"""Every operator of PyTorch's `op_db` on the device: python -m opinfo.run (from python/tests).

Forward, fallback to the CPU allowed, all dtypes, PyTorch's own tolerances; under SPYRE_PROFILE=card
float16 against float64 on what the card stores. Writes a table and prints one summary line.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .table import Outcome, table

TESTS = Path(__file__).parents[1]
TARGET = Path(__file__).parents[3] / "target" / "opinfo"


def main() -> int:
    options = parsed()
    card = os.environ.get("SPYRE_PROFILE") == "card"
    outcome = run(options.device, card, options.share, options.jobs, options.seconds, options.only)
    path = Path(options.table or TARGET / f"{'card' if card else 'open'}.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table(outcome, card))
    print(outcome.summary(card))
    print(f"table: {path}")
    return 0 if outcome.share >= options.bar else 1


def run(device: str, card: bool, share: str, jobs: int, seconds: float, only=None) -> Outcome:
    """Judges the operators of one share (`2/8`: each eighth one, from the second) in `jobs` processes."""
    outcome = Outcome()
    run_into(outcome, lambda: Worker(device, card), share, jobs, seconds, only)
    return outcome


def run_into(outcome, start, share: str, jobs: int, seconds: float, only=None) -> None:
    """Gives the operators of one share to processes that `start` starts, and their verdicts to `outcome`."""
    part, parts = map(int, share.split("/"))
    first = start()
    numbers = range(part - 1, len(first.operators), parts)
    if only:
        numbers = [n for n in numbers if only in first.operators[n]]
    work: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in numbers:
        work.put(number)
    progress = Progress(len(numbers))
    threads = [
        threading.Thread(target=drain, args=(work, worker, outcome, progress, seconds))
        for worker in [first, *(start() for _ in range(jobs - 1))]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    progress.end()


def drain(work, worker, outcome: Outcome, progress, seconds: float) -> None:
    while True:
        try:
            number = work.get_nowait()
        except queue.Empty:
            return worker.end()
        worker = worker.judged(number, seconds, outcome)
        progress.one(worker.operators[number], outcome)


class Worker:
    """A process that judges operators; one that dies or hangs is replaced."""

    def __init__(self, device: str, card: bool, module: str = "opinfo.worker", further: Sequence[str] = ()):
        self.device, self.card, self.module, self.further = device, card, module, further
        arguments = ["--device", device, *(["--card"] if card else []), *further]
        self.errors = open(os.path.join("/tmp", f"opinfo-{os.getpid()}-{id(self)}.log"), "w+")
        os.unlink(self.errors.name)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker does not start:\n{self.said()}")
        self.operators = json.loads(line)["operators"]

    def judged(self, number: int, seconds: float, outcome: Outcome) -> "Worker":
        """Judges one operator; gives the worker to go on with."""
        name = self.operators[number]
        late = threading.Timer(seconds, self.process.kill)
        late.start()
        start = time.monotonic()
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                message = json.loads(line)
                if "done" in message:
                    return self
                outcome.add(name, message["dtype"], message["verdict"])
        except BrokenPipeError:
            pass
        finally:
            late.cancel()
        code = self.process.wait()
        why = f"no end within {seconds:.0f} s"
        if time.monotonic() - start < seconds:
            why = f"the process ended with code {code}: {self.said()[-600:]}"
        outcome.add(name, "-", {"failed": 1, "messages": {why: 1}})
        return Worker(self.device, self.card, self.module, self.further)

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Progress:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, count: int):
        self.count, self.done, self.lock = count, 0, threading.Lock()
        self.live = sys.stderr.isatty()

    def one(self, name: str, outcome: Outcome) -> None:
        with self.lock:
            self.done += 1
            if not self.live and self.done % max(1, self.count // 10):
                return
            bar = "#" * (30 * self.done // self.count)
            text = f"[{bar:30}] {self.done}/{self.count} operators, {outcome.passed} samples pass, "
            text += f"{outcome.failed} fail  {name[:30]:30}"
            print(text, end="\r" if self.live else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.live:
            print(file=sys.stderr)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="spyre")
    parser.add_argument("--share", default="1/1", help="n/m: each m-th operator, from the n-th")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--seconds", type=float, default=300, help="limit per operator")
    parser.add_argument("--only", help="operators whose name holds this text")
    parser.add_argument("--table", help="file for the table")
    parser.add_argument("--bar", type=float, default=0.0, help="least share of samples that pass")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
