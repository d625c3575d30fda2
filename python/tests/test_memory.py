"""Memory statistics to the byte, snapshots that memory_viz reads, limits, and what happens past them."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.cuda import _memory_viz

STICK = 128
MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_of_other_tests():
    torch.spyre.init()
    gc.collect()
    torch.spyre.synchronize()
    torch.spyre.empty_cache()
    yield
    torch.spyre.memory._record_memory_history(None)
    torch.spyre.set_per_process_memory_fraction(1.0)


def sticks(*device_size):
    """The bytes of a layout whose device size, without the stick itself, is this."""
    bytes_ = STICK
    for extent in device_size:
        bytes_ *= extent
    return bytes_


@pytest.mark.parametrize(
    ("shape", "dtype", "device_bytes"),
    [
        ((64, 64), torch.float16, 8192),
        ((2,), torch.float16, STICK),
        ((), torch.float32, STICK),
        ((512, 240), torch.float16, sticks(4, 512)),
        ((512, 8, 240), torch.float16, sticks(8, 4, 512)),
        ((33,), torch.float32, sticks(2)),
        ((17,), torch.float64, sticks(2)),
        ((129,), torch.int8, sticks(2)),
        ((128,), torch.bool, sticks(1)),
        ((16,), torch.int64, sticks(1)),
    ],
)
def test_exact_bytes_before_and_after_a_free(shape, dtype, device_bytes):
    before = torch.spyre.memory_stats()

    x = torch.empty(shape, dtype=dtype, device="spyre")
    held = torch.spyre.memory_stats()
    requested = max(x.untyped_storage().nbytes(), 0)
    del x
    after = torch.spyre.memory_stats()

    assert held["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == device_bytes
    assert held["allocation.all.current"] - before["allocation.all.current"] == 1
    assert held["requested_bytes.all.current"] - before["requested_bytes.all.current"] == requested
    assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    assert after["requested_bytes.all.current"] == before["requested_bytes.all.current"]
    assert after["allocation.all.current"] == before["allocation.all.current"]
    assert after["allocated_bytes.all.allocated"] - before["allocated_bytes.all.allocated"] == device_bytes
    assert after["allocated_bytes.all.freed"] - before["allocated_bytes.all.freed"] == device_bytes


def test_views_and_other_names_take_no_memory():
    x = torch.empty(64, 64, dtype=torch.float16, device="spyre")
    held = torch.spyre.memory_allocated()

    views = [x.t(), x[3:, ::2], x.view(-1), x.expand(2, 64, 64), x.detach(), torch.nn.Parameter(x)]
    assert torch.spyre.memory_allocated() == held
    del x
    assert torch.spyre.memory_allocated() == held, "a view still holds it"
    views.clear()
    assert torch.spyre.memory_allocated() == held - 8192


def test_nothing_takes_no_memory():
    before = torch.spyre.memory_stats()

    x = torch.empty(0, 5, device="spyre")

    assert x.data_ptr() == 0
    assert torch.spyre.memory_stats()["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]


def test_peaks_are_kept_and_reset():
    torch.spyre.reset_peak_memory_stats()
    base = torch.spyre.memory_allocated()
    assert torch.spyre.max_memory_allocated() == base

    big = torch.empty(1024, 1024, device="spyre")
    small = torch.empty(32, device="spyre")
    del big
    assert torch.spyre.memory_allocated() == base + STICK
    assert torch.spyre.max_memory_allocated() == base + 4 * MIB + STICK
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == base + STICK
    assert torch.spyre.max_memory_reserved() == torch.spyre.memory_reserved()
    del small


def test_accumulated_counts_are_reset():
    for _ in range(10):
        torch.empty(32, device="spyre")
    assert torch.spyre.memory_stats()["allocation.all.allocated"] >= 10

    torch.spyre.reset_accumulated_memory_stats()
    stats = torch.spyre.memory_stats()

    assert stats["allocation.all.allocated"] == 0
    assert stats["allocated_bytes.all.freed"] == 0
    assert stats["num_ooms"] == 0


def test_the_cache_is_reserved_and_given_back():
    x = torch.empty(1000, device="spyre")
    device_bytes = sticks(32)
    del x
    torch.spyre.synchronize()
    kept = torch.spyre.memory_reserved()

    assert kept >= torch.spyre.memory_allocated() + device_bytes
    torch.spyre.empty_cache()
    assert torch.spyre.memory_reserved() <= kept - device_bytes
    assert torch.spyre.memory_reserved() >= torch.spyre.memory_allocated()


def test_the_small_pool_ends_at_one_mebibyte():
    before = torch.spyre.memory_stats()
    x = torch.empty(MIB // 4, device="spyre")
    y = torch.empty(MIB // 4 - 32, device="spyre")
    held = torch.spyre.memory_stats()

    def gained(name):
        return held[name] - before[name]

    assert gained("allocated_bytes.large_pool.current") == MIB == x.untyped_storage().nbytes()
    assert gained("allocated_bytes.small_pool.current") == MIB - STICK == y.untyped_storage().nbytes()


def live_bytes():
    """Bytes in use, by tensors and by what plans have on the device."""
    blocks = (block for segment in torch.spyre.memory_snapshot() for block in segment["blocks"])
    return sum(block["size"] for block in blocks if block["state"] == "active_allocated")


SUMS = ("allocated", "freed", "current")


def test_numbers_add_up():
    torch.spyre.synchronize()
    of_plans = live_bytes() - torch.spyre.memory_allocated()
    before = torch.spyre.memory_stats()
    x = torch.empty(1 << 20, device="spyre")
    stats, (free, total) = torch.spyre.memory_stats(), torch.spyre.mem_get_info()

    assert stats["allocated_bytes.all.current"] <= stats["reserved_bytes.all.current"] <= total - free
    assert 0 < free < total
    assert torch.spyre.device_memory_used() == total - free
    assert 0 <= torch.spyre.memory_usage() <= 100
    for name in ("allocated_bytes", "allocation", "requested_bytes"):
        parts = (stats[f"{name}.{pool}.current"] for pool in ("large_pool", "small_pool"))
        assert sum(parts) == stats[f"{name}.all.current"], name
        # What is there may be older than the sums, which can be reset.
        more = {sum_: stats[f"{name}.all.{sum_}"] - before[f"{name}.all.{sum_}"] for sum_ in SUMS}
        assert more["allocated"] - more["freed"] == more["current"] > 0, name
    assert live_bytes() - of_plans == stats["allocated_bytes.all.current"]
    del x


def test_the_accelerators_statistics_are_the_same():
    x = torch.empty(1000, device="spyre")

    assert torch.accelerator.memory_stats() == torch.spyre.memory_stats()
    assert torch.accelerator.memory_allocated() == torch.spyre.memory_allocated("spyre:0")
    assert torch.accelerator.get_memory_info() == torch.spyre.mem_get_info()
    nested = torch.spyre.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.spyre.memory_allocated(0)
    del x


def test_a_summary_shows_them():
    x = torch.empty(5000, device="spyre")
    text = torch.spyre.memory_summary()

    assert "Memory of spyre:0" in text
    assert len({len(line) for line in text.splitlines() if line.startswith("=")}) == 1
    (line,) = (line for line in text.splitlines() if line.startswith("allocations"))
    assert int(line.split()[1]) == torch.spyre.memory_stats()["allocation.all.current"]
    assert len(torch.spyre.memory_summary(abbreviated=True)) < len(text)
    del x


def test_pinned_host_memory_is_counted():
    before = torch.spyre.host_memory_stats()
    x = torch.empty(1000).pin_memory()
    held = torch.spyre.host_memory_stats()

    assert x.is_pinned()
    gained = held["active_bytes.current"] - before["active_bytes.current"]
    assert 4000 <= gained <= 8192
    del x
    assert torch.spyre.host_memory_stats()["active_bytes.current"] == before["active_bytes.current"]
    torch.spyre.memory.reset_peak_host_memory_stats()
    after = torch.spyre.host_memory_stats()
    assert after["active_bytes.peak"] == after["active_bytes.current"]
    torch.spyre.memory.reset_accumulated_host_memory_stats()
    assert torch.spyre.host_memory_stats()["active_bytes.allocated"] == 0
    torch.accelerator.empty_host_cache()


def test_past_a_fraction_is_out_of_memory():
    _, total = torch.spyre.mem_get_info()
    torch.spyre.set_per_process_memory_fraction((torch.spyre.memory_allocated() + 4 * MIB) / total)
    assert 0 < torch.spyre.get_per_process_memory_fraction() < 1
    ooms = torch.spyre.memory_stats()["num_ooms"]

    fits = torch.empty(3 * MIB, dtype=torch.int8, device="spyre")
    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(2 * MIB, dtype=torch.int8, device="spyre")
    assert torch.spyre.memory_stats()["num_ooms"] == ooms + 1
    assert str(2 * MIB) in re.sub(r"[,_]", "", str(raised.value)) or "2.00 MiB" in str(raised.value)
    del fits
    assert torch.empty(3 * MIB, dtype=torch.int8, device="spyre").numel() == 3 * MIB


@pytest.mark.parametrize(("fraction", "error"), [(1.5, ValueError), (-0.1, ValueError), (1, TypeError)])
def test_fractions_are_checked(fraction, error):
    with pytest.raises(error, match="(?i)fraction"):
        torch.spyre.set_per_process_memory_fraction(fraction)


def test_more_than_there_is_is_out_of_memory_with_the_numbers():
    _, total = torch.spyre.mem_get_info()

    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(total + MIB, dtype=torch.int8, device="spyre")

    assert "spyre" in str(raised.value).lower()
    assert len(re.findall(r"\d+", str(raised.value))) >= 3, raised.value
    assert torch.ones(3, device="spyre").cpu().tolist() == [1, 1, 1], "the device goes on"


def test_out_of_memory_observers_run_before_the_error_is_raised():
    code = """
        import torch
        seen = []
        torch.spyre.memory.attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
        torch.spyre.memory.attach_out_of_memory_observer(lambda *numbers: 1 / 0)
        _, total = torch.spyre.mem_get_info()
        try:
            torch.empty(total * 2, dtype=torch.int8, device="spyre")
        except torch.OutOfMemoryError:
            ((device, requested, of, free),) = seen
            print(device, requested == total * 2, of == total, 0 < free <= total)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == ["0", "True", "True", "True"], run.stderr
    assert "ZeroDivisionError" in run.stderr

    with pytest.raises(TypeError, match="callable"):
        torch.spyre.memory.attach_out_of_memory_observer(7)


def allocate_here(elements):
    return torch.empty(elements, dtype=torch.float16, device="spyre")


def test_history_names_the_lines_that_took_memory():
    torch.spyre.memory._record_memory_history(max_entries=1000, clear_history=True)
    x = allocate_here(640)
    y = allocate_here(64)
    del y
    snapshot = torch.spyre.memory._snapshot()

    events = snapshot["device_traces"][0]
    actions = [(e["action"], e["size"]) for e in events if e["action"] != "snapshot"]
    assert actions == [("alloc", 1280), ("alloc", 128), ("free_requested", 128), ("free_completed", 128)]
    top = events[0]["frames"][0]
    assert (top["name"], top["filename"]) == ("allocate_here", __file__)
    assert top["line"] == allocate_here.__code__.co_firstlineno + 1
    assert [frame["name"] for frame in events[0]["frames"]][1] == "test_history_names_the_lines_that_took_memory"
    (block,) = (
        b for s in snapshot["segments"] for b in s["blocks"]
        if b["state"] == "active_allocated" and b["frames"]
    )  # fmt: skip
    assert (block["size"], block["requested_size"], block["address"]) == (1280, 1280, events[0]["addr"])
    assert block["frames"][0]["name"] == "allocate_here"
    assert events[0]["time_us"] <= events[-1]["time_us"]
    del x


def test_history_is_bounded_and_forgotten():
    torch.spyre.memory._record_memory_history(max_entries=5, clear_history=True)
    for _ in range(20):
        torch.empty(3, device="spyre")
    assert len(torch.spyre.memory._snapshot()["device_traces"][0]) == 5

    torch.spyre.memory._record_memory_history(None)
    torch.empty(3, device="spyre")
    assert torch.spyre.memory._snapshot()["device_traces"][0] == []


def test_history_keeps_what_was_asked_for():
    torch.spyre.memory._record_memory_history(context=None, skip_actions=["free_requested", "snapshot"], clear_history=True)
    torch.empty(3, device="spyre")
    events = torch.spyre.memory._snapshot()["device_traces"][0]
    assert [e["action"] for e in events] == ["alloc", "free_completed"]
    assert all(e["frames"] == [] for e in events)

    torch.spyre.memory._record_memory_history("state", clear_history=True)
    x = torch.empty(3, device="spyre")
    snapshot = torch.spyre.memory._snapshot()
    assert snapshot["device_traces"][0] == []
    assert any(b["frames"] for s in snapshot["segments"] for b in s["blocks"])
    del x


@pytest.mark.parametrize("wrong", [{"enabled": "yes"}, {"context": "some"}, {"stacks": "rust"}, {"skip_actions": ["malloc"]}])
def test_what_history_does_not_know(wrong):
    with pytest.raises(ValueError, match="which is none of"):
        torch.spyre.memory._record_memory_history(**wrong)


def test_running_out_of_memory_is_history_too():
    torch.spyre.memory._record_memory_history(clear_history=True)
    _, total = torch.spyre.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(total * 2, dtype=torch.int8, device="spyre")

    (event,) = (e for e in torch.spyre.memory._snapshot()["device_traces"][0] if e["action"] == "oom")
    assert event["size"] == total * 2 and 0 < event["device_free"] <= total


def some_history(path):
    torch.spyre.memory._record_memory_history(clear_history=True)
    kept = [torch.empty(size, device="spyre") for size in (1000, 1 << 20, 7)]
    torch.empty(100, device="spyre")
    torch.spyre.memory._dump_snapshot(path)
    return kept


def test_memory_viz_reads_a_dump(tmp_path):
    kept = some_history(tmp_path / "dump.pickle")
    data = pickle.loads((tmp_path / "dump.pickle").read_bytes())

    summary = _memory_viz.segsum(data)
    assert f"segments: {len(data['segments'])}" in summary
    trace = _memory_viz.trace(data)
    assert "Device 0 ----------------" in trace
    # It takes as many bytes as are allocated for the length of a segment: what is past them is "MEM".
    assert re.search(r"= (seg_\d+|MEM)\[\d+:4\.0MiB\]", trace), trace
    assert "del d # 512.0B" in trace
    assert "snapshot.pickle" in _memory_viz.trace_plot(data)
    assert "snapshot.pickle" in _memory_viz.segment_plot(data)
    flames = _memory_viz.memory(data, format_flamegraph=lambda lines: lines)
    assert re.search(r"active_allocated;.*test_memory.py:\d+:some_history.* 4194304", flames), flames
    _memory_viz.compare(data["segments"], data["segments"], format_flamegraph=lambda lines: lines)
    del kept


@pytest.mark.parametrize("command", ["stats", "trace"])
def test_memory_viz_as_a_command(tmp_path, command):
    kept = some_history(tmp_path / "dump.pickle")
    arguments = [sys.executable, "-m", "torch.cuda._memory_viz", command, str(tmp_path / "dump.pickle")]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert ("total_allocated" if command == "stats" else "entries") in run.stdout
    del kept


def test_a_snapshot_has_no_host_pointers(tmp_path):
    kept = some_history(tmp_path / "dump.pickle")
    data = pickle.loads((tmp_path / "dump.pickle").read_bytes())

    addresses = [s["address"] for s in data["segments"]] + [e["addr"] for e in data["device_traces"][0] if "addr" in e]
    with open("/proc/self/maps") as file:
        mapped = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in file]
    assert not [a for a in addresses if any(first <= a < last for first, last in mapped)]
    json.dumps(data)
    del kept


def test_pools_name_memory():
    pool, other = torch.spyre.MemPool(), torch.spyre.MemPool()
    assert pool.id != other.id and pool.allocator is None

    with torch.spyre.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = torch.empty(1 << 18, device="spyre")
        with torch.spyre.use_mem_pool(other):
            y = torch.empty(64, device="spyre")
        z = torch.empty(64, device="spyre")
    outside = torch.empty(64, device="spyre")

    def sizes(pool):
        return sorted(b["size"] for s in pool.snapshot() for b in s["blocks"])

    assert pool.use_count() == 1
    assert sizes(pool) == [256, MIB] and sizes(other) == [256]
    del x, y
    assert sizes(pool) == [256] and sizes(other) == []
    del z, outside
    with pytest.raises(NotImplementedError):
        torch.spyre.MemPool(allocator=object())


def test_devices_are_counted_by_themselves(python):
    code = """
        import torch
        before = [torch.spyre.memory_allocated(i) for i in range(2)]
        x = torch.ones(1000, device="spyre:1")
        y = x.to("spyre:0")
        held = [torch.spyre.memory_allocated(i) for i in range(2)]
        del x
        after = [torch.spyre.memory_allocated(i) for i in range(2)]
        segments = torch.spyre.memory_snapshot()
        print(*before, *held, *after, *sorted(s["device"] for s in segments), y.sum().item())
    """
    assert python(code, AIU_WORLD_SIZE="2").stdout.split() == "0 0 4096 4096 4096 0 0 1 1000.0".split()


def test_history_with_many_threads(python):
    code = """
        import threading, torch
        from torch_spyre.ops.fallbacks import set_fallback_mode
        set_fallback_mode("silent")
        torch.spyre.memory._record_memory_history(max_entries=10_000)
        base, failures = torch.spyre.memory_allocated(), []

        def work(seed):
            try:
                for step in range(200):
                    x = torch.empty(1 + (seed * 37 + step * 11) % 500, device="spyre", requires_grad=True)
                    if step % 20 == 0:
                        (x * 2).sum().backward()
                    if step % 50 == 0:
                        torch.spyre.memory._snapshot()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        snapshot = torch.spyre.memory._snapshot()
        live = sum(b["size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated")
        actions = [e["action"] for e in snapshot["device_traces"][0]]
        print(failures, live == torch.spyre.memory_allocated() == base, actions.count("alloc") == actions.count("free_completed"))
    """
    assert python(code, timeout=300).stdout.strip() == "[] True True"


@pytest.mark.parametrize("stacks", ["python", "all"])
def test_a_process_with_history_ends_well(python, stacks):
    code = f"""
        import torch
        torch.spyre.memory._record_memory_history(stacks={stacks!r})
        kept = [torch.empty(100, device="spyre") for _ in range(50)]
        class Cycle: pass
        cycle = Cycle(); cycle.x = torch.empty(3, device="spyre"); cycle.cycle = cycle
        torch.kept = torch.empty(5, device="spyre")
        print(len(torch.spyre.memory._snapshot()["device_traces"][0]))
    """
    assert python(code).stdout.strip() == "53"


def test_before_the_start_there_is_nothing_and_nothing_starts():
    code = """
        import torch
        m = torch.spyre.memory
        assert torch.spyre.memory_allocated() == 0 == torch.spyre.max_memory_reserved()
        assert m.memory_stats() == {} == m.host_memory_stats() == m.memory_stats_as_nested_dict()
        assert m.memory_snapshot() == [] and m._snapshot()["device_traces"] == []
        torch.spyre.empty_cache(); torch.accelerator.empty_cache()
        torch.spyre.reset_peak_memory_stats(); torch.spyre.reset_accumulated_memory_stats()
        assert torch.accelerator.memory_allocated() == 0
        print(torch.spyre.is_initialized())
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "False", run.stderr


def test_a_limit_from_the_environment():
    code = "import torch; x = torch.ones(3, device='spyre'); print(torch.spyre.mem_get_info()[1])"
    environment = {**os.environ, "SPYRE_MEMORY_LIMIT": "64MiB"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == str(64 * MIB), run.stderr
