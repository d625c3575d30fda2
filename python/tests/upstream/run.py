#!/usr/bin/env python3
"""Runs PyTorch's own device tests on spyre, with no skip list, and prints how many pass.

    python python/tests/upstream/run.py --torch-root DIR

`DIR` is a PyTorch source tree of the installed version, or a part of one: its `test/` is not in the wheel. Without
one the small device-type test beside this file runs alone, and the upstream figures are "not measured".

Two tables come from one run: fallback to the CPU allowed, and fallback counted as a failure. A test
process that dies or hangs costs the test under way; the rest of its file goes on in a new process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN = HERE / "device_type.py"
FILES = [
    "test_view_ops.py",
    "test_indexing.py",
    "test_shape_ops.py",
    "test_torch.py",
    "test_tensor_creation_ops.py",
    "test_type_promotion.py",
    "test_reductions.py",
    "test_nn.py",
    "test_ops.py",
]
NOT_MEASURED = "NOT MEASURED: PyTorch's own tests need --torch-root, a source tree of PyTorch"


def main() -> int:
    options = parsed()
    files = [OWN, *upstream_files(options)]
    with tempfile.TemporaryDirectory() as folder:
        results = {file.name: measure(file, Path(folder), options) for file in files}
    print_table("fallback to the CPU allowed", results, native=False)
    print_table("fallback to the CPU counted as failure", results, native=True)
    print_failures(results, options.failures)
    if not options.torch_root:
        banner(f"{NOT_MEASURED} {torch_version()}. Only the {OWN.name} beside the driver ran.")
    low = [name for name, tests in results.items() if share(tests, native=False) < options.bar]
    for name in low:
        print(f"{name}: below {100 * options.bar:.0f} %")
    return 1 if low else 0


def upstream_files(options) -> list[Path]:
    if not options.torch_root:
        banner(f"{NOT_MEASURED} {torch_version()}.")
        return []
    folder = Path(options.torch_root).resolve() / "test"
    names = options.files.split(",") if options.files else FILES
    missing = [name for name in names if not (folder / name).is_file()]
    if len(missing) == len(names):
        raise SystemExit(f"{folder} has no {', '.join(missing)}: is it a PyTorch source tree?")
    if missing:
        banner(f"NOT MEASURED: {folder} has no {', '.join(missing)}.")
    return [folder / name for name in names if name not in missing]


def torch_version() -> str:
    from importlib.metadata import version

    return version("torch")


def measure(file: Path, folder: Path, options) -> dict[str, dict]:
    """Runs a file to its end, in `jobs` processes at once; gives the last word on each test."""
    print(f"== {file.name}", flush=True)
    records = [folder / f"{file.name}.{part}" for part in range(1, options.jobs + 1)]
    under_way = [
        (record, start(file, record, f"{part}/{options.jobs}", options))
        for part, record in enumerate(records, 1)
    ]
    tests: dict[str, dict] = {}
    for part, (record, child) in enumerate(under_way, 1):
        tests |= to_the_end(file, record, f"{part}/{options.jobs}", child, options)
    return tests


def start(file: Path, record: Path, part: str, options) -> subprocess.Popen:
    settings = {
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": options.device,
        "PYTORCH_TEST_WITH_SLOW": "0",
        "SPYRE_FALLBACK": "silent",
        "SPYRE_UPSTREAM_RECORD": str(record),
        "SPYRE_UPSTREAM_PART": part,
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    # The tree's own conftest asks for plug-ins of its CI, and for an older pytest.
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--noconftest", "-p", "recorder"]
    command += ["-p", "no:cacheprovider", "--tb=no", "--rootdir", str(file.parent), str(file)]
    if options.select:
        command += ["-k", options.select]
    log = open(record.with_suffix(".log"), "a")
    return subprocess.Popen(
        command, cwd=file.parent, env={**os.environ, **settings}, stdout=log, stderr=log
    )


def to_the_end(file: Path, record: Path, part: str, child: subprocess.Popen, options) -> dict:
    """Waits for a process, and starts it again as long as each round gets further."""
    known = -1
    while True:
        code = ended(child, record, options.seconds)
        tests = read(record)
        if code in (0, 1, 5) or len(tests) == known:
            break
        known = len(tests)
        child = start(file, record, part, options)
    if code not in (0, 1, 5):
        log = record.with_suffix(".log").read_text()[-1500:]
        tests[f"{file.name}::collection"] = {"outcome": "died", "message": log}
    return tests


def ended(child: subprocess.Popen, record: Path, seconds: float) -> int:
    """The exit code; a process in which nothing ends for `seconds` is killed."""
    size = -1
    while True:
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            now = record.stat().st_size if record.exists() else 0
            if now == size:
                child.kill()
                return child.wait()
            size = now


def read(record: Path) -> dict[str, dict]:
    if not record.exists():
        return {}
    lines = (json.loads(line) for line in record.read_text().splitlines())
    return {line["test"]: line for line in lines}


def counts(tests: dict[str, dict], native: bool) -> Counter:
    sums = Counter()
    for test in tests.values():
        kind = test["outcome"]
        if kind == "passed" and native and test.get("fallbacks"):
            kind = "failed"
        sums[kind] += 1
    return sums


def share(tests: dict[str, dict], native: bool) -> float:
    sums = counts(tests, native)
    judged = sums["passed"] + sums["failed"] + sums["died"]
    return sums["passed"] / judged if judged else 0.0


def print_table(title: str, results: dict[str, dict], native: bool) -> None:
    print(f"\n{title}\n")
    print(f"{'file':32} {'pass':>7} {'fail':>7} {'died':>5} {'skip':>7} {'xfail':>6} {'share':>8}")
    everything = {}
    for name, tests in results.items():
        print_row(name, tests, native)
        everything |= {f"{name}/{test}": value for test, value in tests.items()}
    print_row("all", everything, native)


def print_row(name: str, tests: dict[str, dict], native: bool) -> None:
    sums = counts(tests, native)
    row = f"{name:32} {sums['passed']:7} {sums['failed']:7} {sums['died']:5} {sums['skipped']:7}"
    print(f"{row} {sums['xfailed']:6} {100 * share(tests, native):7.2f}%")


def print_failures(results: dict[str, dict], most: int) -> None:
    classes: dict[str, list[str]] = {}
    for tests in results.values():
        for name, test in tests.items():
            if test["outcome"] in ("failed", "died"):
                text = test.get("message") or test["outcome"]
                classes.setdefault(re.sub(r"\d+", "#", text), []).append(name)
    if classes:
        print("\nfailures, by message")
    for text, names in sorted(classes.items(), key=lambda item: -len(item[1]))[:most]:
        print(f"{len(names):6}  {text}\n        {names[0]}")


def banner(text: str) -> None:
    print("!" * 100 + f"\n!! {text}\n" + "!" * 100, flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--torch-root", default=os.environ.get("TORCH_ROOT"))
    parser.add_argument("--device", default="privateuse1", help="cpu shows what is not our fault")
    parser.add_argument("--files", help=f"comma-separated; default {','.join(FILES)}")
    parser.add_argument("--select", help="pytest -k")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--seconds", type=float, default=300, help="limit for a test that hangs")
    parser.add_argument("--bar", type=float, default=0.95, help="least share that passes, per file")
    parser.add_argument("--failures", type=int, default=40, help="classes of failure to print")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
