"""A pytest plug-in: one line of JSON per test, with the number of operators that fell back.

Tests of a file that are made for no device run on the CPU alone, and are left out.
Started anew after a crash or a time-out it leaves out what has a line already; a test that began and
did not end has one too (`died`).
"""

from __future__ import annotations

import json
import os
import zlib

import pytest
import torch

PATH = os.environ["SPYRE_UPSTREAM_RECORD"]
PART, PARTS = map(int, os.environ.get("SPYRE_UPSTREAM_PART", "1/1").split("/"))


def pytest_collection_modifyitems(config, items):
    seen = {json.loads(line)["test"] for line in open(PATH)} if os.path.exists(PATH) else set()
    mine = [item for item in items if is_of_a_device(item) and part_of(item) == PART]
    left = [item for item in mine if item.nodeid not in seen]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
    items[:] = left


def is_of_a_device(item) -> bool:
    """Returns true if PyTorch made a test for the device that was asked for."""
    return getattr(getattr(item, "cls", None), "device_type", None) is not None


def part_of(item) -> int:
    return zlib.crc32(item.name.encode()) % PARTS + 1


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    before = fallbacks()
    write({"test": item.nodeid, "outcome": "died"})
    item.spyre_outcomes = []
    yield
    outcome = worst(item.spyre_outcomes)
    message = next((text for kind, text in item.spyre_outcomes if kind == outcome), "")
    write(
        {
            "test": item.nodeid,
            "outcome": outcome,
            "fallbacks": fallbacks() - before,
            "message": message,
        }
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    kind = report.outcome
    if hasattr(report, "wasxfail"):
        kind = "xfailed" if report.skipped else "passed"
    text = str(call.excinfo.value).splitlines()[0][:200] if call.excinfo and str(call.excinfo.value) else ""
    if report.when == "call" or kind != "passed":
        item.spyre_outcomes.append((kind, text))


def worst(outcomes) -> str:
    kinds = [kind for kind, _ in outcomes]
    for kind in ("failed", "skipped", "xfailed", "passed"):
        if kind in kinds:
            return kind
    return "failed"


def fallbacks() -> int:
    """Operator calls that fell back to the CPU so far, in this process."""
    spyre = getattr(torch, "spyre", None)
    return sum(spyre.fallback_stats().values()) if spyre else 0


def write(line: dict) -> None:
    with open(PATH, "a") as file:
        file.write(json.dumps(line) + "\n")
