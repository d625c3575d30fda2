"""Interrupts waits for the device: `python -m interrupts.run --tries 200 --check`.

Each try starts a process that queues seconds of work, waits in one of several ways, and is sent a signal. It
prints how long the signal took to be raised, and whether the device could be used afterwards. An exit is sent its
signal once it has begun, and is over when the process is. A last row has exits that are left alone: work under way
may not delay them.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
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
    "exit": "",
}
"""What waits. The last one leaves the interpreter with work under way."""

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

LEAVING = CHILD.split("signals = []")[0] + "print('ready', flush=True)"
LEAVING_IDLE = LEAVING.replace("event.record()", "torch.spyre.synchronize()").replace("range(40)", "range(1)")


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
    """Milliseconds from the signal to the exception, or to the process's end; and whether the device works."""
    raised = "KeyboardInterrupt" if number == signal.SIGINT else "TimeoutError"
    text = CHILD.replace("HANDLER", raised).replace("WAIT", WAITS.get(wait) or "pass")
    if wait == "exit":
        text = LEAVING
    child = start(text)
    try:
        time.sleep(0.05 if wait == "exit" else 0.3)
        sent = time.monotonic()
        child.send_signal(number)
        output, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return float("inf"), False
    ended = time.monotonic()
    if wait == "exit":
        return (ended - sent) * 1e3, child.returncode in (0, 130, -signal.SIGINT)
    times = [float(line.split()[1]) for line in output.splitlines() if line.startswith("raised")]
    if not times:
        raise RuntimeError(f"{wait}: {output}")
    return (times[0] - sent) * 1e3, "usable" in output


def exit_time(text: str) -> float:
    """Milliseconds from a script's last line to its process's end."""
    child = start(text)
    began = time.monotonic()
    child.communicate(timeout=60)
    return (time.monotonic() - began) * 1e3


def delay_of_exits(pairs: int) -> float:
    """Milliseconds that work under way adds to an exit: most of an exit is PyTorch's and the interpreter's own."""
    both = [(exit_time(LEAVING), exit_time(LEAVING_IDLE)) for _ in range(pairs)]
    busy, idle = (statistics.median(times) for times in zip(*both, strict=True))
    print(f"{'exit left alone':20} {pairs:4} pairs, median {busy:6.1f} ms with work, {idle:6.1f} ms without")
    return busy - idle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=200, help="in all, over the kinds of waits")
    parser.add_argument("--check", action="store_true", help="fail if one takes longer than 100 ms")
    options = parser.parse_args()
    is_good = True
    for wait in WAITS:
        tries = [attempt(wait) for _ in range(max(1, options.tries // len(WAITS)))]
        times = [milliseconds for milliseconds, _ in tries]
        hangs, unusable = times.count(float("inf")), sum(not usable for _, usable in tries)
        late = sum(milliseconds > MOST_MILLISECONDS for milliseconds in times)
        print(
            f"{wait:20} {len(tries):4} tries, median {statistics.median(times):6.1f} ms, "
            f"longest {max(times):6.1f} ms, {late} late, {hangs} hangs, {unusable} unusable"
        )
        is_good &= late == 0 and unusable == 0
    is_good &= delay_of_exits(max(3, options.tries // len(WAITS))) <= MOST_MILLISECONDS
    return 0 if is_good or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
