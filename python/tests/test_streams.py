"""Streams and events: the pool, the current stream, waiting, timing."""

from __future__ import annotations

import threading

import pytest
import torch

DEVICE = torch.device("spyre:0")


@pytest.fixture(autouse=True)
def on_the_default_stream():
    torch.spyre.set_stream(torch.spyre.default_stream())
    yield
    torch.spyre.synchronize()
    torch.spyre.set_stream(torch.spyre.default_stream())


def test_the_default_stream_is_number_zero_and_current_at_first():
    default = torch.spyre.default_stream()

    assert (default.id, default.priority, default.device()) == (0, 0, DEVICE)
    assert torch.spyre.current_stream() == default
    assert repr(default) == "<torch_spyre.Stream device=0 id=0>"


@pytest.mark.parametrize(("priority", "ids", "reported"), [(0, range(1, 33), 0), (-1, range(33, 65), -1), (1, range(33, 65), -1)])
def test_the_pool_goes_round(priority, ids, reported):
    streams = [torch.spyre.Stream(priority=priority) for _ in range(64)]

    assert {s.id for s in streams} == set(ids)
    assert [s.id for s in streams[:32]] == [s.id for s in streams[32:]]
    assert {s.priority for s in streams} == {reported}
    following = [(a.id, b.id) for a, b in zip(streams, streams[1:])]
    assert all(b == a + 1 or (a, b) == (ids[-1], ids[0]) for a, b in following)


@pytest.mark.parametrize("device", [0, "spyre", "spyre:0", DEVICE, None])
def test_devices_by_any_name(device):
    stream = torch.spyre.Stream(device)

    assert stream.device() == DEVICE
    assert torch.spyre.current_stream(device).device() == DEVICE
    assert torch.spyre.default_stream(device).id == 0
    torch.spyre.synchronize(device)


def test_a_device_of_a_stream_is_a_method_and_can_be_read_like_an_attribute():
    stream = torch.spyre.Stream()

    assert isinstance(stream.device(), torch.device)
    assert (stream.device.type, stream.device.index) == ("spyre", 0)
    assert stream.device == DEVICE and stream.device != torch.device("cpu")
    assert stream.device == torch.spyre.Stream().device
    assert hash(stream.device) == hash(DEVICE)
    assert (str(stream.device), repr(stream.device)) == ("spyre:0", "device(type='spyre', index=0)")


@pytest.mark.parametrize("device", [1, -1, "spyre:7"])
def test_devices_that_are_not_there(device):
    with pytest.raises(RuntimeError, match=r"out of range \[0, 1\)"):
        torch.spyre.Stream(device)


def test_streams_of_other_devices_are_refused():
    with pytest.raises(ValueError, match="Expected a spyre device, but got: cpu"):
        torch.spyre.Stream("cpu")


def test_streams_are_equal_by_device_and_number():
    stream = torch.spyre.Stream()
    same = torch.Stream(stream_id=stream.stream_id, device_index=0, device_type=stream.device_type)

    assert stream == same and hash(stream) == hash(same)
    assert stream != torch.spyre.default_stream()
    assert {stream, same, torch.spyre.default_stream()} == {stream, torch.spyre.default_stream()}
    assert stream != "stream" and stream is not None


def test_a_stream_is_a_context_manager():
    outer, inner = torch.spyre.Stream(), torch.spyre.Stream()

    with outer:
        assert torch.spyre.current_stream() == outer
        assert torch.accelerator.current_stream() == outer
        with torch.spyre.stream(inner) as entered:
            assert entered is inner
            assert torch.spyre.current_stream() == inner
        assert torch.spyre.current_stream() == outer
    assert torch.spyre.current_stream().id == 0


def test_a_stream_can_be_entered_while_it_is_entered():
    stream = torch.spyre.Stream()

    with stream:
        with stream:
            assert torch.spyre.current_stream() == stream
        assert torch.spyre.current_stream() == stream
    assert torch.spyre.current_stream().id == 0


def test_the_stream_before_is_back_after_an_exception():
    with pytest.raises(KeyError), torch.spyre.Stream():
        raise KeyError

    assert torch.spyre.current_stream().id == 0


def test_stream_contexts():
    stream = torch.spyre.Stream()

    with torch.spyre.StreamContext(stream) as entered:
        assert entered is stream
        assert torch.spyre.current_stream() == stream
    assert torch.spyre.current_stream().id == 0
    for nothing in (torch.spyre.StreamContext(None), torch.spyre.stream(None)):
        with nothing:
            assert torch.spyre.current_stream().id == 0


def test_pytorchs_own_streams():
    stream = torch.Stream(DEVICE)
    high = torch.Stream("spyre", priority=-1)

    assert 1 <= stream.stream_id <= 32 < high.stream_id <= 64
    with stream:
        assert torch.spyre.current_stream() == stream
    with torch.spyre.stream(stream):
        assert torch.accelerator.current_stream() == stream
    torch.accelerator.set_stream(high)
    assert torch.spyre.current_stream() == high
    torch.spyre.set_stream(None)
    assert torch.spyre.current_stream() == high


def test_threads_have_current_streams_of_their_own():
    stream, seen = torch.spyre.Stream(), []

    with stream:
        thread = threading.Thread(target=lambda: seen.append(torch.spyre.current_stream().id))
        thread.start()
        thread.join()

    assert seen == [0]


def test_copies_on_a_stream_are_in_order():
    stream = torch.spyre.Stream()
    x = torch.arange(4096, dtype=torch.float32).pin_memory()

    with stream:
        y = x.to("spyre", non_blocking=True)
        z = torch.empty_like(x, device="spyre")
        z.copy_(y, non_blocking=True)
    stream.synchronize()

    assert stream.query() is True
    assert torch.equal(z.cpu(), x)


def test_streams_wait_for_each_other():
    first, second = torch.spyre.Stream(), torch.spyre.Stream()
    x = torch.randn(512, 512)

    with first:
        y = x.to("spyre", non_blocking=True)
    second.wait_stream(first)
    with second:
        z = y.clone()
    event = second.record_event()
    torch.spyre.current_stream().wait_event(event)
    result = z.clone()
    event.synchronize()

    assert event.query() is True
    assert torch.equal(result.cpu(), x)
    y.record_stream(second)


def test_the_reset_of_a_good_stream_changes_nothing():
    stream = torch.spyre.Stream()

    stream.reset()
    with stream:
        x = torch.ones(3).to("spyre", non_blocking=True)
    stream.synchronize()
    assert x.cpu().tolist() == [1, 1, 1]


def test_events_are_pytorchs():
    event = torch.spyre.Event()

    assert type(event) is torch.Event
    assert isinstance(event, torch.spyre.Event)
    assert not isinstance(object(), torch.spyre.Event)
    assert not isinstance(torch.Event("cpu"), torch.spyre.Event)
    assert event.query() is True
    event.synchronize()
    with pytest.raises(NotImplementedError, match="between processes"):
        torch.spyre.Event(interprocess=True)


def test_events_measure_time():
    start, end = torch.spyre.Event(enable_timing=True), torch.Event("spyre", enable_timing=True)

    start.record()
    x = torch.ones(1 << 20).to("spyre", non_blocking=True)
    end.record(torch.spyre.current_stream())
    end.synchronize()

    assert 0 < start.elapsed_time(end) < 60_000
    assert x.cpu().sum() == 1 << 20


def test_events_without_timing_do_not():
    start, end = torch.spyre.Event(), torch.spyre.Event()
    start.record()
    end.record()
    end.synchronize()

    with pytest.raises((RuntimeError, ValueError), match="(?i)timing"):
        start.elapsed_time(end)


def test_an_event_is_recorded_anew():
    event, stream = torch.spyre.Event(), torch.spyre.Stream()

    for value in range(20):
        with stream:
            x = torch.full((257,), float(value)).to("spyre", non_blocking=True)
        assert stream.record_event(event) is event
        event.wait()
        y = x.clone()
        assert y.cpu().tolist() == [value] * 257
    assert event.query() is True


def test_synchronize_waits_for_all_streams():
    streams = [torch.spyre.Stream() for _ in range(8)]
    tensors = []
    for number, stream in enumerate(streams):
        with stream:
            tensors.append(torch.full((100_000,), float(number)).to("spyre", non_blocking=True))

    torch.spyre.synchronize()

    assert all(stream.query() for stream in streams)
    assert [tensor.cpu().unique().tolist() for tensor in tensors] == [[float(n)] for n in range(8)]


def test_device_methods_of_the_extension():
    from torch_spyre import _C

    for name in ("get_stream_from_pool", "current_stream", "default_stream", "set_current_stream", "synchronize"):
        assert callable(getattr(_C, name, None)), name


@pytest.mark.parametrize(("policy", "high_goes_first"), [(None, True), ("priority", True), ("round-robin", False)])
def test_work_of_high_priority_goes_first(python, policy, high_goes_first):
    """Products of two streams wait behind a long one: the trace tells in which order they were carried out."""
    code = """
        import torch
        low, high = torch.spyre.Stream(), torch.spyre.Stream(priority=-1)
        x, small = torch.randn(1500, 1500, device="spyre"), torch.randn(200, 200, device="spyre")
        for stream in (low, high):
            with stream:
                small @ small, x @ x
        torch.spyre.synchronize()
        with torch.spyre.trace() as trace:
            with low:
                x @ x
                [small @ small for _ in range(8)]
            with high:
                [small @ small for _ in range(8)]
            torch.spyre.synchronize()
        print(*["high" if one.stream == high.id else "low" for one in trace.operations])
    """
    order = python(code, SPYRE_POLICY=policy).stdout.split()
    assert (order.count("low"), order.count("high")) == (9, 8), order
    # The long one is under way, and another may be started before the first of high priority is queued.
    before_high = order[: len(order) - order[::-1].index("high")].count("low")
    assert (before_high <= 3) == high_goes_first, order
