"""Runs PyTorch's own distributed tests on the device, and counts them.

`python -m upstream.distributed --torch-root pytorch [--files a,b] [--only EXPRESSION]` (from python/tests) takes a
PyTorch tree, or the part of it that has `test/distributed`. Each rank has a card of its own. A class that keeps its ranks
leaves out its tests after the first that fails: they are run again without that one. Tests that need another device, or
what only a newer PyTorch has, are listed with the reason, and not counted. A test that does not end in time is a hang.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

FILES = {
    "test_device_mesh.py": 8,
    "test_functional_api.py": 4,
    "tensor/test_redistribute.py": 4,
    "tensor/parallel/test_tp_examples.py": 4,
    "_composable/fsdp/test_fully_shard_training.py": 4,
}
"""Files, and the number of cards that their tests are to see."""
BAR = 95.0
"""The least percentage of tests that pass."""
SECONDS = 600
"""The longest that a test may take."""
PLUGIN = Path(__file__).with_name("every_process")

NOT_COUNTED = {
    "asks for what only a newer PyTorch has": "test_assert_invalid_mesh_tensor test_share_comm_context",
    "goes on with the devices only that it names": """test_train_parity_multi_group
        test_train_parity_multi_group_cpu_offload_eager test_train_parity_multi_group_unshard_async_op""",
    "asks CUDA for events or clocks": "test_post_optim_event test_non_root_forward_backward",
}
"""Tests that say nothing about the device, by the reason."""


class Outcome(NamedTuple):
    """Outcome of a test."""

    name: str
    kind: str
    message: str

    @property
    def is_poisoned(self) -> bool:
        """Returns true if another test's failure is why it did not run."""
        return self.kind == "skipped" and "Previous test failed" in self.message

    @property
    def error(self) -> str:
        """The last error of a rank, without what the test's helpers say around it."""
        lines = re.findall(r"^E? *([\w.]*(?:Error|Exception)\b.*)$", self.message, re.MULTILINE)
        own = [line for line in lines if "exited with error code" not in line]
        return (own or lines or self.message.splitlines() or [""])[-1].strip()[:200]

    @property
    def is_hang(self) -> bool:
        return self.kind == "failed" and bool(re.search(r"terminated or timed out|Process timed out after", self.message))

    @property
    def reason(self) -> str | None:
        """Reason why a failure is not counted."""
        return next((reason for reason, names in NOT_COUNTED.items() if self.name in names.split()), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-root", default=os.environ.get("SPYRE_TORCH_ROOT"))
    parser.add_argument("--files", help=f"comma-separated; default {','.join(FILES)}")
    parser.add_argument("--only", help="pytest's -k")
    options = parser.parse_args()
    folder = Path(options.torch_root or "") / "test/distributed"
    if not options.torch_root or not folder.is_dir():
        print("not measured: there is no PyTorch tree; give --torch-root")
        return 0
    names = options.files.split(",") if options.files else list(FILES)
    for name in names:
        if not (folder / name).exists():
            print(f"not measured: {folder} has no {name}")
    everything: list[Outcome] = []
    for name in names:
        if (folder / name).exists():
            found = run(folder / name, FILES.get(name, 4), options.only)
            report_file(name, found)
            everything.extend(found.values())
    return report_all(everything)


def report_file(name: str, outcomes: dict[str, Outcome]) -> None:
    """Prints what became of a file's tests."""
    for test, outcome in outcomes.items():
        if outcome.kind == "failed":
            print(f"not counted: {test}: {outcome.reason}" if outcome.reason else f"failed: {test}: {outcome.error}")
    kinds = [outcome.kind for outcome in outcomes.values()]
    counts = f"{kinds.count('passed')} passed, {kinds.count('failed')} failed, {kinds.count('skipped')} skipped"
    print(f"{name}: {counts}", flush=True)


def report_all(outcomes: list[Outcome]) -> int:
    """Prints how many tests pass. Returns 0 if enough of them do, and none hangs."""
    counted = [outcome for outcome in outcomes if outcome.kind == "failed" and outcome.reason is None]
    passed = sum(outcome.kind == "passed" for outcome in outcomes)
    others = sum(outcome.kind == "failed" for outcome in outcomes) - len(counted)
    hangs = sum(outcome.is_hang for outcome in counted)
    share = 100 * passed / max(passed + len(counted), 1)
    print(f"{passed} passed, {len(counted)} failed, {others} not counted, {hangs} hangs: {share:.1f} %")
    return 0 if share >= BAR and not hangs else 1


def run(file: Path, cards: int, only: str | None) -> dict[str, Outcome]:
    """The outcome of each test of a file."""
    print(f"== {file.name}", flush=True)
    outcomes = once(file, cards, only, [])
    while any(outcome.is_poisoned for outcome in outcomes.values()):
        ended = [test for test, outcome in outcomes.items() if not outcome.is_poisoned]
        again = once(file, cards, only, ended)
        if all(outcome.is_poisoned for outcome in again.values()):
            break
        outcomes |= again
    return outcomes


def once(file: Path, cards: int, only: str | None, without: list[str]) -> dict[str, Outcome]:
    environment = {
        **os.environ,
        "AIU_WORLD_SIZE": str(cards),
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(SECONDS),
        "PYTHONPATH": os.pathsep.join([str(PLUGIN), os.environ.get("PYTHONPATH", "")]),
        "SPYRE_UPSTREAM_RANKS": "1",
        "SPYRE_FALLBACK": "silent",
        "SPYRE_MEMORY_LIMIT": "2G",
    }
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-c", os.devnull, "-q"]
        command += ["--tb=long", f"--junitxml={record}", "--rootdir", str(file.parent), str(file)]
        command += ["-k", only] if only else []
        command += [part for test in without for part in ("--deselect", f"{file}::{test}")]
        log = Path(folder) / "log"
        with log.open("w") as output:
            subprocess.run(command, env=environment, cwd=folder, stdout=output, stderr=output, check=False)
        if not record.exists():
            raise SystemExit(f"{file} did not run:\n{log.read_text()[-3000:]}")
        cases = ElementTree.parse(record).iter("testcase")
        return {f"{case.get('classname', '').split('.')[-1]}::{case.get('name')}": outcome_of(case) for case in cases}


def outcome_of(case: ElementTree.Element) -> Outcome:
    name = case.get("name", "")
    for child in case:
        if child.tag in ("failure", "error"):
            return Outcome(name, "failed", f"{child.text or ''}\n{child.get('message') or ''}")
        if child.tag == "skipped":
            return Outcome(name, "skipped", child.get("message") or "")
    return Outcome(name, "passed", "")


if __name__ == "__main__":
    sys.exit(main())
