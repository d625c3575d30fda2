"""Variables of the environment, in processes of their own; laziness, silence, forks."""

from __future__ import annotations

import statistics
import time

import pytest

COUNT = "import torch; print(torch.spyre.device_count(), torch.accelerator.device_count(), torch.spyre.is_initialized())"


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({}, 1),
        ({"AIU_WORLD_SIZE": "1"}, 1),
        ({"AIU_WORLD_SIZE": "2"}, 2),
        ({"AIU_WORLD_SIZE": "8"}, 8),
        ({"AIU_WORLD_SIZE": "100"}, 8),
        ({"AIU_WORLD_SIZE": "4", "SPYRE_DEVICES": "0,2"}, 2),
        ({"AIU_WORLD_SIZE": "4", "SPYRE_DEVICES": "3,1,2"}, 3),
        ({"AIU_WORLD_SIZE": "2", "SPYRE_DEVICES": "0,0,5"}, 1),
        ({"AIU_WORLD_SIZE": "4", "FLEX_DEVICE": "MOCK"}, 4),
        ({"AIU_WORLD_SIZE": "2", "FLEX_DEVICE": "PF"}, 2),
        ({"SPYRE_DEVICES": ""}, 0),
    ],
)
def test_how_many_devices_there_are(python, environment, count):
    assert python(COUNT, **environment).stdout.split() == [str(count), str(count), "False"]


def test_no_devices_at_all(python):
    run = python("import torch; print(torch.spyre.is_available(), torch.accelerator.is_available())", SPYRE_DEVICES="")
    assert run.stdout.split() == ["False", "False"]
    run = python("import torch; torch.ones(1, device='spyre')", check=False, SPYRE_DEVICES="")
    assert run.returncode == 1 and "SPYRE_DEVICES" in run.stderr, run.stderr


@pytest.mark.parametrize(
    ("environment", "word"),
    [({"SPYRE_DEVICES": "0,first"}, "'first'|\"first\""), ({"AIU_WORLD_SIZE": "many"}, "many")],
)
def test_what_is_no_number_is_an_error_but_does_not_break_torch(python, environment, word):
    run = python(
        "import torch; torch.manual_seed(1); print(torch.spyre.is_available()); torch.spyre.device_count()",
        check=False, **environment,
    )  # fmt: skip
    assert run.stdout.strip() == "False"
    import re

    assert "RuntimeError" in run.stderr and re.search(word, run.stderr), run.stderr


def test_dropped_entries_are_warned_of_once_at_the_start(python):
    code = "import torch; torch.ones(1, device='spyre:0'); torch.ones(1, device='spyre:0'); torch.spyre.current_device()"
    run = python(code, SPYRE_DEVICES="0,0,7")

    assert run.stderr.count("SPYRE_DEVICES: ignored") == 1, run.stderr
    assert python(COUNT, SPYRE_DEVICES="0,0,7").stderr == ""


def test_more_cards_than_there_are_is_warned_of(python):
    run = python("import torch; torch.ones(1, device='spyre:7'); print(torch.spyre.device_count())", AIU_WORLD_SIZE="9")
    assert run.stdout.strip() == "8"
    assert run.stderr.count("AIU_WORLD_SIZE is 9: there are at most 8 cards") == 1, run.stderr
    assert python("import torch; torch.ones(1, device='spyre:7')", AIU_WORLD_SIZE="8").stderr == ""


@pytest.mark.parametrize("mode", ["PF", "VF", "MOCK"])
def test_memory_modes(python, mode):
    code = "import torch; print(torch.spyre.get_device_properties().memory_mode, torch.ones(3, device='spyre').sum().item())"
    shown = "VF" if mode == "MOCK" else mode
    assert python(code, FLEX_DEVICE=mode).stdout.split() == [shown, "3.0"]


def test_a_memory_mode_that_is_none(python):
    run = python("import torch; torch.ones(3, device='spyre')", check=False, FLEX_DEVICE="fast")
    assert "FLEX_DEVICE" in run.stderr and "give PF, VF or MOCK" in run.stderr, run.stderr


@pytest.mark.parametrize(
    ("code", "environment", "device"),
    [
        ("", {"LOCAL_RANK": "2"}, "2"),
        ("", {}, "0"),
        ("torch.spyre.set_device(1)", {"LOCAL_RANK": "2"}, "1"),
        ("torch.spyre.set_device('spyre:3')", {}, "3"),
        ("torch.spyre.init()", {"LOCAL_RANK": "3", "RANK": "7", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, "3"),
    ],
)
def test_the_device_that_is_selected_at_the_start(python, code, environment, device):
    code = f"import torch; {code}\nprint(torch.spyre.current_device(), torch.ones(1, device='spyre').device)"
    run = python(code, AIU_WORLD_SIZE="4", **{"LOCAL_RANK": None, **environment})
    assert run.stdout.split() == [device, f"spyre:{device}"]


def test_a_rank_without_a_device(python):
    run = python("import torch; torch.ones(1, device='spyre')", check=False, AIU_WORLD_SIZE="2", LOCAL_RANK="2")
    assert run.returncode == 1 and "Device index out of bounds" in run.stderr, run.stderr


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("SPYRE_POLICY", "fair", "give priority, round-robin or drain-one"),
        ("SPYRE_REGIONS", "65", "give a number of regions from 1 to 64"),
        ("SPYRE_REGION_SIZE", "1K", "give whole bytes from 1M to 1T"),
    ],
)
def test_values_that_mean_nothing(python, variable, value, remedy):
    run = python("import torch; torch.ones(3, device='spyre')", check=False, **{variable: value})
    assert f'{variable} is "{value}": {remedy}' in run.stderr, run.stderr


def test_profiles(python):
    code = "import torch; print(torch.spyre.get_device_properties().profile)"
    assert python(code).stdout.strip() == "open"
    assert python(code, SPYRE_PROFILE="card").stdout.strip() == "card"
    run = python(code, check=False, SPYRE_PROFILE="fast")
    assert 'SPYRE_PROFILE is "fast": give open or card' in run.stderr


@pytest.mark.parametrize(("value", "is_on"), [("0", False), ("false", False), ("off", False), ("1", True), (None, True)])
def test_the_downcast_warning(python, value, is_on):
    code = """
        import torch
        print(torch.spyre.get_downcast_warning())
        for _ in range(2):
            torch.arange(3).to("spyre")
        torch.spyre.set_downcast_warning(False)
        print(torch.spyre.get_downcast_warning())
    """
    run = python(code, SPYRE_PROFILE="card", TORCH_SPYRE_DOWNCAST_WARN=value)
    assert run.stdout.split() == [str(is_on), "False"]
    assert run.stderr.count("does not support int64") == int(is_on), run.stderr


def test_import_starts_nothing_and_says_nothing(python):
    code = """
        import threading, torch
        print(torch.spyre.is_initialized(), torch.spyre._is_in_bad_fork(), threading.active_count())
        assert torch.accelerator.current_accelerator() == torch.device("spyre")
        x = torch.ones(3); x.to("cpu"); repr(x); x.is_spyre; torch.nn.Linear(2, 2).to("cpu")
        assert torch.spyre.device_count() == 1 and torch.spyre.is_available()
        for name in ("no_such_name", "_C", "__file__", "__path__", "__wrapped__"):
            assert not hasattr(torch.spyre, name), name
        print(torch.spyre.is_initialized(), len(open("/proc/self/stat").read()) > 0)
        import os
        print(len(os.listdir("/proc/self/task")))
    """
    run = python(code, SPYRE_LOGS=None)
    first, second, threads = run.stdout.splitlines()
    assert first == "False False 1" and second.startswith("False")
    assert run.stderr == ""
    without = python("import torch, os; print(len(os.listdir('/proc/self/task')))", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert threads == without.stdout.strip(), "no thread of ours"


def test_import_is_silent(python):
    run = python("import torch", "-W", "error")
    assert (run.stdout, run.stderr) == ("", "")


def test_loading_by_hand(python):
    code = """
        import torch
        assert not hasattr(torch, "spyre")
        import torch_spyre
        torch_spyre._autoload(); torch_spyre._autoload()
        print(torch_spyre._autoload._ran, torch.ones(2, device="spyre").sum().item())
    """
    assert python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.split() == ["True", "2.0"]


def test_importing_the_package_first(python):
    assert python("import torch_spyre, torch; print(torch.ones(2, device='spyre').sum().item())").stdout.strip() == "2.0"


def test_import_adds_less_than_50_milliseconds(python):
    # The processor's time: what a busy machine does meanwhile is not ours.
    code = """
        import time, torch, torch_spyre
        start = time.process_time(); torch_spyre._autoload(); print(time.process_time() - start)
    """
    seconds = [float(python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout) for _ in range(5)]
    assert statistics.median(seconds) < 0.05, seconds


def test_every_call_in_a_forked_child_raises(python):
    code = """
        import os, sys, torch
        x = torch.ones(3, device="spyre")
        s = torch.spyre.Stream()
        child = os.fork()
        if child == 0:
            words = [torch.spyre.is_available(), torch.spyre.is_initialized(), torch.spyre._is_in_bad_fork()]
            for attempt in (
                lambda: torch.ones(1, device="spyre"), lambda: x.cpu(), lambda: torch.ones(1).to("spyre"),
                lambda: torch.spyre.synchronize(), lambda: torch.spyre.current_device(), lambda: s.synchronize(),
                lambda: torch.spyre.mem_get_info(), lambda: torch.spyre.init(), lambda: torch.spyre.Stream(),
            ):
                try:
                    attempt()
                    words.append("nothing")
                except RuntimeError as error:
                    words.append("fork" in str(error))
            torch.manual_seed(3)
            hasattr(torch.spyre, "SpyreTensorLayout"), hasattr(torch.spyre, "no_such_name")
            del x
            print(*words, flush=True)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        print(status, x.cpu().tolist())
    """
    run = python(code)
    child, parent = run.stdout.splitlines()
    assert child == "True False True " + " ".join(["True"] * 9), run.stderr
    assert parent == "0 [1.0, 1.0, 1.0]"


def test_a_child_of_a_process_that_started_nothing_can_start(python):
    code = """
        import os, torch
        torch.manual_seed(3)
        assert torch.spyre.device_count() == 1
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.ones(3, device="spyre").sum().item() == 3 else 1)
        _, status = os.waitpid(child, 0)
        print(status, torch.ones(3, device="spyre").sum().item())
    """
    assert python(code).stdout.split() == ["0", "3.0"]


def test_a_compile_worker_does_not_start_the_runtime(python):
    code = """
        import torch
        print(torch.spyre.is_available(), torch.spyre.is_initialized(), torch.spyre._is_in_bad_fork())
        try:
            torch.spyre.init()
        except RuntimeError as error:
            print("fork" in str(error))
    """
    assert python(code, IS_INDUCTOR_SPAWNED_SUBPROCESS="1").stdout.split() == ["True", "False", "True", "True"]


def test_spawned_processes_use_the_device(python, tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(
        "import torch, torch.multiprocessing as mp\n"
        "def work(rank, results):\n"
        "    results.put((rank, torch.full((3,), float(rank), device='spyre').sum().item()))\n"
        "if __name__ == '__main__':\n"
        "    torch.ones(1, device='spyre')\n"
        "    results = mp.get_context('spawn').SimpleQueue()\n"
        "    mp.spawn(work, (results,), nprocs=2)\n"
        "    print(sorted(results.get() for _ in range(2)))\n"
    )
    import subprocess
    import sys

    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=180)
    assert run.stdout.strip() == "[(0, 0.0), (1, 3.0)]", run.stderr


def test_the_report_of_the_environment(python):
    run = python("import runpy; runpy.run_module('torch_spyre.collect_env', run_name='__main__')", SPYRE_PROFILE="card")
    assert "torch_spyre" in run.stdout and "copy there and back" in run.stdout
    assert "exact" in run.stdout and "WRONG" not in run.stdout
    assert "SPYRE_PROFILE" in run.stdout and "card" in run.stdout
    broken = python("import runpy; runpy.run_module('torch_spyre.collect_env', run_name='__main__')", AIU_WORLD_SIZE="x")
    assert "RuntimeError: AIU_WORLD_SIZE" in broken.stdout


def test_starting_is_quick(python):
    code = """
        import time, torch
        start = time.perf_counter(); torch.spyre.init(); print(time.perf_counter() - start)
    """
    start = time.perf_counter()
    assert float(python(code).stdout) < 2
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("EAGER_MODE", "x", "give 1 for the device's own kernels, 0 for the CPU's"),
        ("SPYRE_CCL_TRANSPORT", "tcp", "give memory for the memory"),
        ("SPYRE_CCL_BLOCKING_WAIT", "yes", "give 1 to have the host wait"),
        ("SPYRE_CCL_LATENCY_US", "5ms", "give the microseconds"),
        ("SPYRE_CCL_LATENCY_US", "1000001", "give the microseconds"),
        ("LOCAL_RANK", "x", "give the number of this process's card"),
        ("LOCAL_RANK", "-2", "give the number of this process's card"),
        ("LOCAL_RANK", "1.5", "give the number of this process's card"),
        ("SPYRE_FALLBACK", "x", "give error, warn or silent"),
        ("SPYRE_LAUNCH_BLOCKING", "x", "give 1 to have launches wait, or 0"),
        ("SPYRE_PROFILE", "x", "give open or card"),
        ("SPYRE_PROFILE", b"\xff", "give open or card"),
        ("SPYRE_MEMORY_LIMIT", "x", "give whole bytes such as"),
        ("SPYRE_DEVICES", "x", "give indices of"),
        ("AIU_WORLD_SIZE", "x", "give a number of cards from 1 to 8"),
        ("FLEX_DEVICE", "x", "give PF, VF or MOCK"),
        ("TORCH_SPYRE_DOWNCAST_WARN", "x", "give 1, true or on for a warning, 0, false or off for none"),
    ],
)
def test_a_value_that_means_nothing_is_refused_with_those_that_do(python, variable, value, allowed):
    imported = python("import torch; print(torch.ones(1).item())", **{variable: value})
    assert imported.stdout.strip() == "1.0", "what is no business of the CPU's"
    run = python("import torch; torch.ones(1, device='spyre')", check=False, **{variable: value})
    shown = value.decode(errors="replace") if isinstance(value, bytes) else value
    assert run.returncode == 1 and f'{variable} is "{shown}"' in run.stderr and allowed in run.stderr, run.stderr


@pytest.mark.parametrize(("variable", "value"), [("EAGER_MODE", " 1 "), ("EAGER_MODE", ""), ("LOCAL_RANK", "-1"), ("LOCAL_RANK", " 0")])
def test_values_that_mean_something_are_taken(python, variable, value):
    code = "import torch; print(torch.spyre.current_device(), torch.ones(2, device='spyre').sum().item())"
    assert python(code, **{variable: value}).stdout.split() == ["0", "2.0"]


def test_a_rank_that_means_nothing_is_no_device(python):
    run = python("import torch; print(torch.spyre.current_device())", check=False, LOCAL_RANK="x")
    assert run.stdout == "" and "give the number of this process's card" in run.stderr, run.stderr
