"""Work of the card, in traces and in PyTorch's profiles."""

from __future__ import annotations

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from conftest import needs_spyre

pytestmark = needs_spyre


def work(x):
    return torch.softmax(x @ x, 1).sum().item()


def spans(path, category):
    """The events of a category in a file of Chrome's format."""
    with open(path) as file:
        return [event for event in json.load(file)["traceEvents"] if event.get("cat") == category]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message of protocol buffers."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def test_a_trace_shows_kernels_and_copies_with_their_shapes(tmp_path):
    x = torch.randn(64, 64)
    work(x.to("spyre"))  # loads the programs
    path = tmp_path / "step.json"
    with torch.spyre.trace(path) as trace:
        work(x.to("spyre"))

    run = spans(path, "run")
    kernels = [event for event in run if event["args"]["kind"] == "launch"]
    product = next(event for event in kernels if event["name"].startswith("aten_mm"))
    assert product["args"]["shapes"] == ", ".join(["float32[64, 64]"] * 3)
    assert product["dur"] > 0
    assert any(event["args"]["kind"] == "copy to device" for event in run)
    assert (trace.kernels >= 3, trace.copies, trace.lost) == (True, 2, 0)
    assert trace.modelled_seconds > 0
    assert spans(path, "modelled")


def test_a_trace_of_perfetto_has_the_same_spans(tmp_path):
    x = torch.randn(64, 64, device="spyre")
    with torch.spyre.trace(tmp_path / "step.pftrace"):
        work(x)

    packets = [dict(fields(packet)) for field, packet in fields((tmp_path / "step.pftrace").read_bytes()) if field == 1]
    events = [dict(fields(packet[11])) for packet in packets if 11 in packet]
    kinds = [event[9] for event in events]
    assert kinds.count(1) == kinds.count(2) > 0, "every span has an end"
    assert any(event.get(23, b"").startswith(b"aten_mm") for event in events)


def test_what_was_done_before_and_after_is_in_no_trace(tmp_path):
    x = torch.randn(64, 64, device="spyre")
    work(x)
    with torch.spyre.trace() as trace:
        pass
    work(x)
    assert (trace.kernels, trace.copies, trace.modelled_seconds) == (0, 0, 0.0)


def test_traces_may_lie_in_one_another():
    x = torch.randn(8, 8, device="spyre")
    with torch.spyre.trace() as outer:
        x + 1
        with torch.spyre.trace() as inner:
            x + 2
        x + 3
    assert (outer.kernels, inner.kernels) == (3, 1)


def test_more_blocks_than_the_flight_recorder_keeps_are_traced():
    x = torch.zeros(8, device="spyre")
    with torch.spyre.trace() as trace:
        for _ in range(5000):
            x += 1
    assert (trace.kernels, trace.lost) == (5000, 0)


def test_a_trace_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="cannot be written: No such file"):
        with torch.spyre.trace(tmp_path / "nowhere" / "x.json"):
            pass
    with torch.spyre.trace() as trace:
        torch.zeros(8, device="spyre") + 1
    assert trace.kernels >= 1, "and the next one is recorded"


def test_a_trace_is_recorded_once_at_a_time():
    trace = torch.spyre.trace()
    with trace, pytest.raises(RuntimeError, match="already"):
        trace.__enter__()


@pytest.fixture
def profiled(tmp_path):
    x = torch.randn(96, 96)
    work(x.to("spyre"))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
        with record_function("step"):
            work(x.to("spyre"))
    profiler.export_chrome_trace(str(tmp_path / "profile.json"))
    return profiler, tmp_path / "profile.json"


def test_key_averages_have_the_times_of_the_device(profiled):
    averages = {event.key: event for event in profiled[0].key_averages()}
    kernel = next(event for key, event in averages.items() if key.startswith("aten_mm"))
    assert kernel.device_time_total > 0
    assert averages["Memcpy HtoD"].device_time_total > 0
    assert averages["aten::mm"].device_time_total >= kernel.device_time_total
    assert "aten_mm" in profiled[0].key_averages().table(sort_by="self_device_time_total")


def test_profiles_of_chrome_have_kernels_on_rows_of_streams(profiled):
    kernels, copies = spans(profiled[1], "kernel"), spans(profiled[1], "gpu_memcpy")
    product = next(event for event in kernels if event["name"].startswith("aten_mm"))
    assert product["tid"] == product["args"]["stream"] == 0
    assert "float32[96, 96]" in product["args"]["shapes"]
    assert {event["name"] for event in copies} == {"Memcpy HtoD", "Memcpy DtoH"}
    assert not any("correction" in event["name"] for event in kernels)


def test_streams_have_the_numbers_that_they_have_in_pytorch(tmp_path):
    streams = [torch.spyre.Stream(), torch.spyre.Stream(priority=-1), torch.spyre.default_stream()]
    x = torch.ones(8, device="spyre")
    torch.accelerator.synchronize()
    with torch.profiler.profile() as profiler:
        for stream in streams:
            with torch.spyre.stream(stream):
                torch.add(x, x)
        torch.accelerator.synchronize()
    profiler.export_chrome_trace(str(tmp_path / "profile.json"))
    kernels = spans(tmp_path / "profile.json", "kernel")
    # Streams are carried out in any order.
    given, wanted = ({kernel["args"]["stream"] for kernel in kernels}, {s.stream_id for s in streams})
    assert (len(kernels), given) == (3, wanted)


def test_kernels_lie_inside_what_was_profiled(profiled):
    with open(profiled[1]) as file:
        events = json.load(file)["traceEvents"]
    step = next(event for event in events if event.get("name") == "step" and event["ph"] == "X")
    for kernel in spans(profiled[1], "kernel"):
        assert step["ts"] - 1 <= kernel["ts"] <= step["ts"] + step["dur"] + 1
