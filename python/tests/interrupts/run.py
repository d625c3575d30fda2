"""Interrupts waits for the device: `python -m interrupts.run --tries 200 --check`.

Each try starts a process that queues seconds of work, waits in one of several ways, and is sent a signal. It
prints how long the signal took to be raised, and whether the device could be used afterwards.

Exits are sent their signals at random moments after their first callback, half of them in the first 10 ms: the
process must end within 100 ms. Two more rows compare exits with work under way to exits without, left alone and
after a KeyboardInterrupt that ended the script: the work may not delay them. Most of such an exit is PyTorch's and
the interpreter's own.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent.parent
MOST_MILLISECONDS = 100

WAITS = {
    "synchronize": "torch.spyre.synchronize()",
    "stream.synchronize": "torch.spyre.current_stream().synchronize()",
    "cpu": "y.cpu()",
    "item": "y[0, 0].item()",
    "copy to the device": "z.copy_(torch.ones(3000, 3000))",
    "event.synchronize": "event.synchronize()",
    "full queue": "[tiny.add_(1) for _ in range(1 << 20)]",
}
"""Calls that wait, by name."""
PAIRS = 25
"""Exits with and without work that are compared: PyTorch's own take between 0.5 and 1.2 s."""

CHILD = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import torch, warnings
warnings.simplefilter("ignore")
x = torch.ones(3000, 3000, device="spyre")
z = torch.zeros(3000, 3000, device="spyre")
tiny = torch.zeros(1, device="spyre")
small = torch.ones(4, device="spyre")
event = torch.spyre.Event()
(x @ x)[0, 0].item()
(tiny + 1).item()
for _ in range(40):
    y = x @ x
event.record()
signals = []
def handler(number, frame):
    signals.append(time.monotonic())
    raise HANDLER
if HANDLER is not KeyboardInterrupt:
    signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGTERM, handler)
try:
    print("ready", flush=True)
    WAIT
    print("never interrupted", flush=True)
except HANDLER:
    print(f"raised {time.monotonic()}", flush=True)
    try:
        with torch.spyre.stream(torch.spyre.Stream(priority=-1)):
            assert (small + 1).tolist() == [2] * 4
        print("usable", flush=True)
    finally:
        import os
        os._exit(0)
"""

BUSY = CHILD.split("signals = []")[0]
IDLE = BUSY.replace("event.record()", "torch.spyre.synchronize()").replace("range(40)", "range(1)")
LEAVES = """
import atexit
atexit.register(print, "ready", flush=True)
"""
"""The end of a script that says when its exit begins: callbacks run from the last one to the first."""
SLEEPS = """
print("ready", flush=True)
time.sleep(60)
"""



def start(text: str) -> subprocess.Popen:
    """A process that runs `text`, at the line where it says that it is ready."""
    child = subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=HERE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    line = child.stdout.readline()
    if line != "ready\n":
        raise RuntimeError(f"{text}: {line}{child.communicate(timeout=60)[0]}")
    return child


def attempt(wait: str, number: signal.Signals = signal.SIGINT, seconds: float = 60) -> tuple[float, bool]:
    """Milliseconds from the signal to the exception, and whether the device works."""
    raised = "KeyboardInterrupt" if number == signal.SIGINT else "TimeoutError"
    child = start(CHILD.replace("HANDLER", raised).replace("WAIT", WAITS[wait]))
    try:
        time.sleep(0.3)
        sent = time.monotonic()
        child.send_signal(number)
        output, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return float("inf"), False
    times = [float(line.split()[1]) for line in output.splitlines() if line.startswith("raised")]
    if not times:
        raise RuntimeError(f"{wait}: {output}")
    return (times[0] - sent) * 1e3, "usable" in output


def leave(text: str, moment: float, seconds: float = 60) -> float:
    """Milliseconds from a signal, sent `moment` seconds after the child was ready, to the end of its process."""
    child = start(text)
    time.sleep(moment)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    try:
        child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return float("inf")
    ended = time.monotonic()
    if child.returncode not in (130, -signal.SIGINT):
        raise RuntimeError(f"an exit that was interrupted ended with {child.returncode}")
    return (ended - sent) * 1e3


def exits(tries: int, seed: int = 17) -> list[float]:
    """Milliseconds from signals at random moments of exits to the ends of their processes."""
    moments = random.Random(seed)
    spans = [0.01 if number % 2 else 0.3 for number in range(tries)]
    return [leave(BUSY + LEAVES, moments.uniform(0, span)) for span in spans]


def exit_time(text: str) -> float:
    """Milliseconds from the beginning of an exit to its process's end."""
    child = start(text + LEAVES)
    began = time.monotonic()
    child.communicate(timeout=60)
    return (time.monotonic() - began) * 1e3


def delay(name: str, pairs: int, end: Callable[[str], float]) -> float:
    """Milliseconds that work under way adds to exits that `end` times, by the medians of pairs."""
    both = [(end(BUSY), end(IDLE)) for _ in range(pairs)]
    busy, idle = (statistics.median(times) for times in zip(*both, strict=True))
    print(f"{name:20} {pairs:4} pairs, median {busy:6.1f} ms with work, {idle:6.1f} ms without")
    return busy - idle


def print_row(wait: str, times: list[float], unusable: int) -> bool:
    """Prints a kind of wait; whether all of its tries were good."""
    late = sum(milliseconds > MOST_MILLISECONDS for milliseconds in times)
    print(
        f"{wait:20} {len(times):4} tries, median {statistics.median(times):6.1f} ms, "
        f"longest {max(times):6.1f} ms, {late} late, {times.count(float('inf'))} hangs, {unusable} unusable"
    )
    return late == 0 and unusable == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=200, help="in all, over the kinds of waits")
    parser.add_argument("--check", action="store_true", help="fail if one takes longer than 100 ms")
    options = parser.parse_args()
    count = max(1, options.tries // (len(WAITS) + 1))
    is_good = True
    for wait in WAITS:
        tries = [attempt(wait) for _ in range(count)]
        unusable = sum(not is_usable for _, is_usable in tries)
        is_good &= print_row(wait, [milliseconds for milliseconds, _ in tries], unusable)
    is_good &= print_row("exit", exits(count), 0)
    pairs = max(PAIRS, count)
    is_good &= delay("exit left alone", pairs, exit_time) <= MOST_MILLISECONDS
    is_good &= delay("exit after Ctrl-C", pairs, lambda text: leave(text + SLEEPS, 0)) <= MOST_MILLISECONDS
    return 0 if is_good or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
