"""Processes that end at any moment end cleanly: no abort, no segmentation fault, no hang.

CI runs a share of the 200 endings; SPYRE_EXITS=200 runs them all.
"""

import os
import random
import signal
import subprocess
import sys
import time

from conftest import needs_spyre

ENDINGS = int(os.environ.get("SPYRE_EXITS", "40"))
AT_ONCE = 2
SECONDS = 90

BUSY = """
import atexit, os, random, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it was ignored
import torch
draw = random.Random(SEED)
device = torch.device("spyre")
streams = [torch.spyre.Stream() for _ in range(draw.randint(1, 8))]
live = []
def work(count):
    for step in range(count):
        with torch.spyre.stream(draw.choice(streams)):
            host = torch.randn(draw.randint(1, 300), draw.randint(1, 300))
            there = host.to(device, non_blocking=True)
            live.append((there.t() + 1)[::2])
            if len(live) > 20:
                live.pop(draw.randrange(20))
work(draw.randint(1, 30))
print("ready", flush=True)
"""

# No daemon threads where the interpreter is torn down: CPython ends one inside whatever C++ it runs,
# and PyTorch aborts then with CPU tensors alone.
WAYS = {
    "falls off the end with busy streams": ("work(20)", 0),
    "keeps live tensors in a module": ("sys.modules['keeper'] = live; work(5)", 0),
    "keeps live tensors in a cycle": ("live.append(live); work(5)", 0),
    "raises": ("work(5); raise ValueError('on purpose')", 1),
    "raises in a thread": (
        "t = threading.Thread(target=lambda: (work(5), 1 / 0)); t.start(); t.join()",
        0,
    ),
    "ends while a thread works": (
        "threading.Thread(target=work, args=(100,)).start(); time.sleep(draw.random() / 20)",
        0,
    ),
    "sys.exit(3)": ("work(5); sys.exit(3)", 3),
    "os._exit(4)": ("work(5); os._exit(4)", 4),
    "os._exit(4) while a thread works": (
        "threading.Thread(target=work, args=(100000,), daemon=True).start(); "
        "time.sleep(draw.random() / 20); os._exit(4)",
        4,
    ),
    "works inside atexit": ("atexit.register(lambda: (work(5), torch.spyre.synchronize()))", 0),
    "is interrupted": ("threading.Timer(draw.random() / 20, "
                       "lambda: os.kill(os.getpid(), signal.SIGINT)).start(); work(1000000)", -2),
    "SIGTERM from outside": ("work(1000000)", -15),
    "SIGTERM from itself": ("os.kill(os.getpid(), signal.SIGTERM); work(1000000)", -15),
    "SIGTERM turned into SystemExit": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); work(1000000)",
        7,
    ),
    "a forked child falls off the end": (
        "pid = os.fork()\n"
        "if pid: code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]); "
        "work(3); sys.exit(code)",
        0,
    ),
    "a forked child drops what it inherited": (
        "pid = os.fork()\n"
        "if pid == 0:\n    live.clear(); streams.clear(); sys.exit(0)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]); work(3); sys.exit(code)",
        0,
    ),
    "a forked child tries the device": (
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    for attempt in (lambda: torch.ones(2, device=device), lambda: live[0].cpu(), "
        "lambda: torch.spyre.synchronize(), lambda: live[0] + 1, lambda: torch.spyre.Stream()):\n"
        "        try: attempt()\n"
        "        except RuntimeError: continue\n"
        "        sys.exit(9)\n"
        "    sys.exit(0)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]); work(3); sys.exit(code)",
        0,
    ),
    "a fork with busy threads": (
        "threading.Thread(target=work, args=(100,)).start()\n"
        "for _ in range(5):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: os._exit(0)\n"
        "    os.waitpid(pid, 0)\n",
        0,
    ),
    "drops a stream and an event in mid-work": (
        "with torch.spyre.stream(streams[0]):\n"
        "    event = torch.spyre.Event(); work(5); event.record(); del event\n"
        "streams.clear(); draw = random.Random(0); streams.append(torch.spyre.Stream()); work(3)",
        0,
    ),
    "is out of memory": (
        "try: torch.empty(1 << 50, dtype=torch.uint8, device=device)\n"
        "except torch.OutOfMemoryError: work(2)",
        0,
    ),
}
FROM_OUTSIDE = {"SIGTERM from outside", "SIGTERM turned into SystemExit"}


def begin(way: str, seed: int) -> subprocess.Popen:
    text = BUSY.replace("SEED", str(seed)) + WAYS[way][0]
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPYRE_FALLBACK": "silent", "OMP_NUM_THREADS": "1"},
    )


def end(way: str, seed: int, child: subprocess.Popen) -> str | None:
    """Waits for a child; None, or what is wrong with how it ended."""
    if way in FROM_OUTSIDE:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
        time.sleep(random.Random(seed).random() / 20)  # the moment is what is under test
        child.send_signal(signal.SIGTERM)
    try:
        _, errors = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        return f"{way} (seed {seed}): hangs\n{child.communicate()[1]}"
    wanted = WAYS[way][1]
    accepted = {wanted} | ({1, -2, 130} if wanted == -2 else set())
    if child.returncode not in accepted:
        return f"{way} (seed {seed}): code {child.returncode}, not {wanted}\n{errors[-3000:]}"
    for word in ("panicked", "terminate called", "Fatal Python error", "Segmentation"):
        if word in errors:
            return f"{way} (seed {seed}): {word}\n{errors[-3000:]}"
    return None


@needs_spyre
def test_processes_end_cleanly_at_any_moment():
    names = list(WAYS)
    plan = [(names[number % len(names)], number) for number in range(ENDINGS)]
    wrong = []
    while plan:
        batch = [(way, seed, begin(way, seed)) for way, seed in plan[:AT_ONCE]]
        del plan[:AT_ONCE]
        wrong += [end(way, seed, child) for way, seed, child in batch]

    wrong = [text for text in wrong if text]
    assert not wrong, f"{len(wrong)} of {ENDINGS} ended badly:\n" + "\n".join(wrong)
    print(f"{ENDINGS} endings, all clean")


@needs_spyre
def test_an_import_alone_starts_nothing():
    text = (
        "import threading, os, torch\n"
        "assert not torch.spyre.is_initialized()\n"
        "assert len(os.listdir('/proc/self/task')) == THREADS, os.listdir('/proc/self/task')\n"
    )
    plain = "import os, torch; print(len(os.listdir('/proc/self/task')))"
    off = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    threads = subprocess.check_output([sys.executable, "-c", plain], env=off, text=True).strip()
    done = subprocess.run(
        [sys.executable, "-c", text.replace("THREADS", threads)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
