"""Failures by the dozen: ranks that are killed or stopped, links that are cut, calls that do not fit together.

    python -m distributed.trials --kills 60 --stops 20 --cuts 20 --mismatches 40

starts 2 to 4 ranks for each trial, which compare every result with what it is to be, and interrupts them at a random
moment. It prints a line for each trial that went wrong, and ends with 1 if there is one. Links are those between two
network namespaces; where none can be made, their line says so.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import children

from . import ranks

TIMEOUT = 2.0
"""Seconds that a collective has where one is to time out."""
MOST_SECONDS = 60
"""Time after which a rank that has not ended hangs."""
NAMESPACES = ("spyre-trial-0", "spyre-trial-1")


class Trial(NamedTuple):
    """Deed that is done to the ranks."""

    kind: str
    size: int
    victim: int
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.size} ranks, rank {self.victim}, seed {self.seed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("kills", "stops", "cuts", "mismatches"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wrong = 0
    for kind, count in (("kill", given.kills), ("stop", given.stops), ("mismatch", given.mismatches)):
        wrong += tried(kind, count, given.seed)
    if given.cuts:
        wrong += tried_cuts(given.cuts, given.seed)
    return 1 if wrong else 0


def tried(kind: str, count: int, seed: int) -> int:
    """Runs trials of a kind, and says how many went wrong."""
    wrong = 0
    longest = 0.0
    for at in range(count):
        chosen = random.Random(f"{kind} {seed + at}")
        size = 2 if kind == "cut" else chosen.randint(2, 4)
        trial = Trial(kind, size, chosen.randrange(size), seed + at)
        try:
            longest = max(longest, run(trial, chosen))
        except AssertionError as error:
            wrong += 1
            print(f"WRONG {trial}: {error}", flush=True)
    if count:
        print(f"{kind}: {count} tried, {wrong} wrong, longest {longest:.2f} s from it to the last error", flush=True)
    return wrong


def tried_cuts(count: int, seed: int) -> int:
    with_link = subprocess.run(["sh", "-ec", MAKE_LINK], capture_output=True, text=True, check=False)
    try:
        if with_link.returncode:
            print(f"cut: not measured, no network namespaces here ({with_link.stderr.strip()})", flush=True)
            return 0
        return tried("cut", count, seed)
    finally:
        subprocess.run(["sh", "-c", REMOVE_LINK], capture_output=True, check=False)


REMOVE_LINK = "; ".join(f"ip netns del {name}" for name in NAMESPACES)
MAKE_LINK = f"""
    ({REMOVE_LINK}) 2>/dev/null || true
    {"; ".join(f"ip netns add {name}; ip -n {name} link set lo up" for name in NAMESPACES)}
    ip link add trial0 netns {NAMESPACES[0]} type veth peer name trial1 netns {NAMESPACES[1]}
    {"; ".join(f"ip -n {name} addr add 10.77.0.{at + 1}/24 dev trial{at}" for at, name in enumerate(NAMESPACES))}
    {"; ".join(f"ip -n {name} link set trial{at} up" for at, name in enumerate(NAMESPACES))}
"""


def run(trial: Trial, chosen: random.Random) -> float:
    """Runs a trial. Returns the seconds from what was done to the last error."""
    started = start(trial)
    try:
        for child in started:
            wait_for_line(child, "begun")
        time.sleep(chosen.random() * 0.4)
        done = time.time()
        DEEDS[trial.kind](started[trial.victim])
        ended = {}
        for rank, child in enumerate(started):
            if not (rank == trial.victim and trial.kind in ("kill", "stop")):
                ended[rank] = children.finish(child, MOST_SECONDS)
    finally:
        for child in started:
            if child.poll() is None:
                child.kill()
        if trial.kind == "cut":
            subprocess.run(["ip", "-n", NAMESPACES[1], "link", "set", "trial1", "up"], check=False)
    longest = 0.0
    for rank, (code, output) in ended.items():
        assert code == 0 and "passed" in output, f"rank {rank} ended with {code}:\n{output}"
        found = re.search(r"failed at (\S+): (.*)", output, re.S)
        assert found, f"rank {rank} says nothing:\n{output}"
        longest = max(longest, float(found[1]) - done)
        check(trial, rank, started[trial.victim].pid, found[2])
    limit = {"kill": 1.0, "mismatch": MOST_SECONDS}.get(trial.kind, TIMEOUT + 2)
    assert longest <= limit, f"{longest:.2f} s"
    return longest


def start(trial: Trial) -> list:
    arguments = [trial.kind, str(trial.victim), str(trial.seed)]
    if trial.kind != "cut":
        return ranks.start("trial_rank", trial.size, *arguments)
    settings = {"SPYRE_CCL_TRANSPORT": "gloo", "MASTER_ADDR": "10.77.0.1"}
    wrappers = [
        ["ip", "netns", "exec", name, "env", f"GLOO_SOCKET_IFNAME=trial{at}"] for at, name in enumerate(NAMESPACES)
    ]
    return ranks.start("trial_rank", trial.size, *arguments, wrappers=wrappers, **settings)


def wait_for_line(child: subprocess.Popen, word: str) -> None:
    read = []
    for line in child.stdout:
        read.append(line)
        if line.startswith(word):
            return
    raise AssertionError(f"a rank ended before it said {word}:\n{''.join(read)}")


def cut(_: subprocess.Popen) -> None:
    subprocess.run(["ip", "-n", NAMESPACES[1], "link", "set", "trial1", "down"], check=True)


DEEDS: dict[str, Callable[[subprocess.Popen], None]] = {
    "kill": lambda child: child.send_signal(signal.SIGKILL),
    "stop": lambda child: child.send_signal(signal.SIGSTOP),
    "cut": cut,
    "mismatch": lambda _: None,
}


def check(trial: Trial, rank: int, pid: int, text: str) -> None:
    """Checks that an error names the rank and the operation."""
    victim = f"rank {trial.victim} (pid {pid}"
    wanted = {
        "kill": [victim, "SIGKILL"],
        "stop": [victim, "has not arrived"],
        "cut": [f"rank {1 - rank}"],
        "mismatch": [f"rank {trial.victim} called", f"and rank {trial.victim}" if rank != trial.victim else "and rank"],
    }[trial.kind]
    for part in [*wanted, "#"]:
        assert part in text, f"rank {rank} does not say {part!r}: {text}"


if __name__ == "__main__":
    sys.exit(main())
