"""One cost for one launch: `--predict`, `spyre run`, `print(trace)` and the trace's modelled row."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import torch

import commands
from conftest import needs_spyre

pytestmark = needs_spyre

KERNELS = {
    "double": ("kernel double(i, j) { in x: float32[i, j] out y: float32[i, j] y = x + x }", (64, 96)),
    "softmax": (
        "kernel softmax(i, j) { in x: float16[i, j] out y: float16[i, j]"
        " e = exp(x - max<j>(x)) y = e / sum<j>(e) }",
        (512, 2048),
    ),
    "rows": ("kernel rows(i, j) { in x: float32[i, j] out y: float32[i] y = sum<j>(x) }", (300, 500)),
}
PARTS = ("kernel_nanoseconds", "copy_nanoseconds", "launch_nanoseconds", "total_nanoseconds")
LAUNCH = 20_000


def spread(text):
    """A statement in each line."""
    for word in ("in x", "out y", " e =", " y ="):
        text = text.replace(word, f"\n{word}")
    return text.replace("{", "{\n").replace("}", "\n}")


def seconds(trace):
    """The parts of a trace, in nanoseconds."""
    parts = trace.modelled_kernel_seconds, trace.modelled_copy_seconds, trace.modelled_launch_seconds
    return [round(part * 1e9) for part in (*parts, trace.modelled_seconds)]


def row(path):
    """Length of the modelled rows of a trace, and of their assumed spans, in nanoseconds."""
    with open(path) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("cat") == "modelled"]
    assumed = [event for event in events if event["args"]["basis"] == "assumed"]
    return [round(sum(event["dur"] for event in some) * 1000) for some in (events, assumed)]


@pytest.mark.parametrize("stream", ["default", "another"])
@pytest.mark.parametrize("name", KERNELS)
def test_four_figures_of_one_launch_agree(name, stream, tmp_path):
    text, (i, j) = KERNELS[name]
    file = tmp_path / f"{name}.ir"
    file.write_text(spread(text))
    predicted = commands.report("compile", file, "--predict", f"i={i},j={j}")["predicted"]["cost"]
    ran = commands.report("run", file, "--shape", f"i={i}", "--shape", f"j={j}", "--fill", "random")

    expected = [predicted[part] for part in PARTS]
    assert expected[1:] == [0, LAUNCH, expected[0] + LAUNCH]
    assert predicted["assumed"] == ["copy_nanoseconds", "launch_nanoseconds"]
    assert [ran["modelled"][part] for part in PARTS] == expected
    assert ran["modelled_nanoseconds"] == expected[-1]

    kernel = torch.spyre.compile(file.read_text())
    with torch.spyre.Stream() if stream == "another" else nullcontext():
        x = torch.ones(i, j, dtype=torch.float16 if name == "softmax" else torch.float32, device="spyre")
        for turn in range(4):  # cold, and as launches that need no correction
            path = tmp_path / f"{turn}.json"
            with torch.spyre.trace(path) as trace:
                kernel(x)
            assert seconds(trace) == expected, turn
            assert row(path) == [expected[-1], LAUNCH]
            assert (trace.kernels, trace.copies) == (1, 0)
    for part in ("kernels", "copies", "launches"):
        assert f" {part} " in repr(trace)
    assert repr(trace).count("(assumed)") == 2


def test_copies_and_launches_are_counted_separately(tmp_path):
    file, path = tmp_path / "double.ir", tmp_path / "trace.json"
    file.write_text(spread(KERNELS["double"][0]))
    kernel, host = torch.spyre.compile(file.read_text()), torch.ones(64, 96)
    kernel(host.to("spyre")).cpu()
    with torch.spyre.trace(path) as trace:
        kernel(host.to("spyre")).cpu()
    kernels, copies, launches, total = seconds(trace)
    assert launches == LAUNCH
    assert copies == 2 * (10_000 + -(-64 * 96 * 4 // 25))
    assert row(path) == [total, copies + launches] and total == kernels + copies + launches

    ran = commands.report("run", file, "--shape", "i=64", "--shape", "j=96", "--fill", "random", "--trace", path)
    moved = ran["modelled_tensor_copies_nanoseconds"]
    assert row(path)[0] == ran["modelled_nanoseconds"] + moved


def test_an_operator_costs_the_same_each_time():
    x = torch.ones(64, 96, device="spyre")
    costs = []
    for _ in range(5):
        with torch.spyre.trace() as trace:
            y = x + x
        costs.append(seconds(trace))
        del y
    assert costs == [costs[0]] * 5
    assert costs[0][2] == LAUNCH
