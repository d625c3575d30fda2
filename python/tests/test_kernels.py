"""Kernels from folders: prepared, launched on tensors, refused, and failing in their own time."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading

import pytest
import torch

from torch_spyre import kernels
from torch_spyre._C import _save_sample_plan as save_sample
from torch_spyre.kernels import JobPlan, launch_jobplan, launch_kernel, prepare_kernel

CARD = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"
WAITS = os.environ.get("SPYRE_LAUNCH_BLOCKING") == "1"
BASE = 7 * 2**34


@pytest.fixture
def sample(tmp_path):
    """Writes a plan that was assembled by hand, and says where."""

    def save(name: str, dtype=torch.float32, tile=None, form="plan") -> str:
        folder = tmp_path / f"{name}-{dtype}-{tile}-{form}"
        if not folder.exists():
            save_sample(name, folder, dtype, tile, form)
        return str(folder)

    return save


def numbers(*size: int, dtype=torch.float32) -> torch.Tensor:
    """Small whole numbers: sums and products of them are exact."""
    return torch.randint(-4, 5, size).to(dtype)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# Launches.


@pytest.mark.parametrize("form", ["plan", "spyrecode"])
def test_a_saved_plan_runs_on_tensors(sample, form):
    a, b = numbers(70, 50), numbers(50, 90)
    c = torch.empty(70, 90, device="spyre")

    launch_kernel(sample("matmul", form=form), [a.to("spyre"), b.to("spyre"), c])

    assert torch.equal(c.cpu(), a @ b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64], ids=str)
def test_plans_of_several_dtypes(sample, dtype):
    a, b = numbers(33, 130, dtype=dtype), numbers(33, 130, dtype=dtype)
    c = torch.zeros(33, 130, dtype=dtype, device="spyre")
    launch_kernel(sample("add", dtype), [a.to("spyre"), b.to("spyre"), c])
    assert torch.equal(c.cpu(), a + b)


def test_a_folder_may_be_a_path(sample):
    from pathlib import Path

    x, y = numbers(5, 6), torch.empty(5, 6, device="spyre")
    launch_kernel(Path(sample("add")), (x.to("spyre"), x.to("spyre"), y))
    assert torch.equal(y.cpu(), x + x)
    assert prepare_kernel(Path(sample("add"))).num_steps() == 4


def test_every_view_and_layout_is_an_argument(sample):
    chance = random.Random(1)
    folder = sample("add")
    for _ in range(60):
        rows, columns = chance.choice([1, 3, 64, 70]), chance.choice([1, 2, 33, 100])
        hosts, tensors = [], []
        for _ in range(3):
            host = numbers(columns + 3, 2 * rows + 1)
            dims = chance.choice([[0], [1], [0, 1], []])
            tensor = host.to("spyre", stick_dims=dims)
            offset = chance.randint(0, 3)
            hosts.append(host.narrow(0, offset, columns)[:, 1::2].t())
            tensors.append(tensor.narrow(0, offset, columns)[:, 1::2].t())
        launch_kernel(folder, tensors)
        assert torch.equal(tensors[2].cpu(), hosts[0] + hosts[1])


def test_tensors_larger_than_the_tile_are_launched_tile_by_tile(sample):
    folder = sample("matmul", tile=[32, 32, 32])
    a, b = numbers(100, 70), numbers(70, 40)
    c = torch.empty(100, 40, device="spyre")
    launch_kernel(folder, [a.to("spyre"), b.to("spyre"), c])
    assert torch.equal(c.cpu(), a @ b)


def test_a_plan_of_two_steps_keeps_what_lies_between(sample):
    a, b, c = (numbers(20, 70) for _ in range(3))
    d = torch.empty(20, 70, device="spyre")
    job = prepare_kernel(sample("two_additions"))
    launch_jobplan(job, [a.to("spyre"), b.to("spyre"), c.to("spyre"), d])
    assert torch.equal(d.cpu(), a + b + c)
    assert [job.get_step_type(at) for at in range(job.num_steps())] == ["HostCompute", "H2D"] + ["Compute"] * 4


def test_scalars_come_with_the_launch(sample):
    folder = sample("scale")
    x, y = numbers(20, 70), torch.empty(20, 70, device="spyre")
    for factor, more in [(2.0, 0.5), (-1.0, 100.0)]:
        launch_kernel(folder, [x.to("spyre"), y], [factor, more])
        assert torch.equal(y.cpu(), x * factor + more)
    whole, y = numbers(4, 5, dtype=torch.int32), torch.empty(4, 5, dtype=torch.int32, device="spyre")
    launch_kernel(sample("scale", torch.int32), [whole.to("spyre"), y], [-3, 7])
    assert torch.equal(y.cpu(), whole * -3 + 7)


def test_empty_tensors_are_launched(sample):
    def empty(*size):
        return torch.empty(size, device="spyre")

    launch_kernel(sample("add"), [empty(0, 4), empty(0, 4), empty(0, 4)])
    c = torch.ones(3, 4, device="spyre")
    launch_kernel(sample("matmul"), [empty(3, 0), empty(0, 4), c])
    assert torch.equal(c.cpu(), torch.zeros(3, 4)), "a product over nothing"


def test_a_result_may_be_an_argument(sample):
    x = numbers(20, 30)
    tensor = x.to("spyre")
    launch_kernel(sample("add"), [tensor, tensor, tensor])
    assert torch.equal(tensor.cpu(), x + x)


def test_launches_follow_the_current_stream(sample):
    folder = sample("add")
    streams = [torch.spyre.Stream() for _ in range(4)]
    x = numbers(64, 64)
    results = []
    for at, stream in enumerate(streams):
        with stream:
            tensor = (x + at).to("spyre", non_blocking=True)
            result = torch.empty(64, 64, device="spyre")
            for _ in range(20):
                launch_kernel(folder, [tensor, tensor, result])
            results.append(result)
    torch.spyre.synchronize()
    for at, result in enumerate(results):
        assert torch.equal(result.cpu(), 2 * (x + at))


def test_threads_launch_one_plan_at_once(sample):
    job = prepare_kernel(sample("matmul"))
    a, b = numbers(40, 50), numbers(50, 60)
    expected, wrong = a @ b, []

    def work():
        with torch.spyre.Stream():
            mine, theirs = a.to("spyre"), b.to("spyre")
            for _ in range(30):
                c = torch.empty(40, 60, device="spyre")
                launch_jobplan(job, [mine, theirs, c])
                if not torch.equal(c.cpu(), expected):
                    wrong.append(c)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tensors_may_be_dropped_while_a_launch_has_them(sample):
    folder = sample("add")
    x = numbers(200, 200)
    results = []
    for at in range(30):
        result = torch.empty(200, 200, device="spyre")
        launch_kernel(folder, [(x + at).to("spyre"), (x * at).to("spyre"), result])
        results.append(result)
    for at, result in enumerate(results):
        assert torch.equal(result.cpu(), (x + at) + (x * at))


def test_a_result_counts_as_changed(sample):
    x = numbers(5, 5).to("spyre")
    y = torch.empty(5, 5, device="spyre")
    before = x._version, y._version
    launch_kernel(sample("add"), [x, x, y])
    assert (x._version, y._version) == (before[0], before[1] + 1)


def test_launches_show_in_profiles(sample):
    from torch.profiler import ProfilerActivity, profile

    x, y = numbers(5, 5).to("spyre"), torch.empty(5, 5, device="spyre")
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        launch_kernel(sample("add"), [x, x, y])
    assert "launch_kernel:add" in {event.name for event in seen.events()}


# Prepared plans.


@pytest.mark.parametrize("form", ["plan", "spyrecode"])
def test_a_prepared_plan_tells_what_it_is(sample, form):
    job = prepare_kernel(sample("matmul", tile=[64, 64, 64], form=form))
    assert isinstance(job, JobPlan)
    assert [job.get_step_type(at) for at in range(job.num_steps())] == ["HostCompute", "H2D", "Compute", "Compute"]
    assert job.job_allocation_size() > 0 and job.job_allocation_size() % 128 == 0
    assert job.device_index == torch.spyre.current_device()
    assert [name for name, *_ in job.tensors()] == ["a", "b", "c"]
    assert job.tensors()[2] == ("c", "float32", [64, 64], True)
    assert "matmul" in repr(job) and str(job.folder) == sample("matmul", tile=[64, 64, 64], form=form)
    for wrong in (4, 99, -1):
        with pytest.raises(RuntimeError, match="Step index out of range"):
            job.get_step_type(wrong)


def test_a_plan_is_prepared_for_a_stream(sample):
    stream = torch.spyre.Stream()
    job = prepare_kernel(sample("add"), stream)
    x, y = numbers(5, 5), torch.empty(5, 5, device="spyre")
    launch_jobplan(job, [x.to("spyre"), x.to("spyre"), y])
    assert torch.equal(y.cpu(), x + x)


def test_dropping_a_plan_gives_its_memory_back(sample):
    folder = sample("matmul")
    prepare_kernel(folder)
    torch.spyre.synchronize()
    before = torch.spyre.mem_get_info()[0]
    jobs = [prepare_kernel(folder) for _ in range(50)]
    del jobs
    torch.spyre.synchronize()
    assert torch.spyre.mem_get_info()[0] >= before - 2**20


def test_another_plan_in_the_same_folder_is_seen(sample, tmp_path):
    folder = tmp_path / "kernel"
    x, y = numbers(6, 7) + 5, torch.empty(6, 7, device="spyre")
    shutil.copytree(sample("add"), folder)
    launch_kernel(folder, [x.to("spyre"), x.to("spyre"), y])
    assert torch.equal(y.cpu(), x + x)
    shutil.rmtree(folder)
    with pytest.raises(RuntimeError, match="SpyreCode directory does not exist"):
        launch_kernel(folder, [x.to("spyre"), x.to("spyre"), y])
    shutil.copytree(sample("div"), folder)
    launch_kernel(folder, [x.to("spyre"), x.to("spyre"), y])
    assert torch.equal(y.cpu(), torch.ones(6, 7))


def test_a_folder_is_found_from_where_the_program_is(sample, tmp_path, monkeypatch):
    x, y = numbers(6, 7) + 5, torch.empty(6, 7, device="spyre")
    for name, expected in (("add", x + x), ("div", torch.ones(6, 7))):
        (tmp_path / name).mkdir()
        shutil.copytree(sample(name), tmp_path / name / "kernel")
        monkeypatch.chdir(tmp_path / name)
        launch_kernel("kernel", [x.to("spyre"), x.to("spyre"), y])
        assert torch.equal(y.cpu(), expected)


def test_a_folder_is_prepared_for_each_device(sample, python):
    python(
        f"""
        import torch
        from torch_spyre.kernels import launch_jobplan, launch_kernel, prepare_kernel
        folder = {sample("add")!r}
        for index in (0, 1, 0):
            x = torch.ones(4, 4).to(f"spyre:{{index}}")
            y = torch.empty_like(x)
            launch_kernel(folder, [x, x, y])
            assert y.cpu().eq(2).all()
        with torch.spyre.device(1):
            job = prepare_kernel(folder)
        assert job.device_index == 1 and torch.spyre.current_device() == 0
        x = torch.ones(4, 4).to("spyre:1")
        launch_jobplan(job, [x, x, y := torch.empty_like(x)])
        assert y.cpu().eq(2).all()
        try:
            launch_jobplan(job, [z := torch.ones(4, 4).to("spyre:0"), z, torch.empty_like(z)])
        except RuntimeError as error:
            assert "is on device 0, and the stream on device 1" in str(error), error
        else:
            raise AssertionError("it lies on another device")
        """,
        AIU_WORLD_SIZE="2",
    )


def test_the_functions_are_where_users_look(sample):
    for name in kernels.__all__:
        assert getattr(torch.spyre, name) is getattr(kernels, name)


# SpyreCode directories.


def foreign() -> dict:
    """A job of another compiler."""

    def command(name, **properties):
        return {"command": name, "properties": properties}

    return {
        "JobPreparationPlan": [
            command("Allocate", size="4096"),
            command("InitTransfer", init_bin_file="init.bin", dev_ptr=str(BASE), size="1024"),
        ],
        "JobExecPlan": [
            command("ComputeOnHost", ohandle="h", size="128", ishape=["1"], ihandle="", hcm={"vdci": {}}),
            command("DataTransfer", dirn="false", host_handle="h", dev_ptr=str(BASE + 1024), size="128"),
            command("ComputeOnDevice", job_bin_ptr=str(BASE)),
        ],
    }


def write(folder, job) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "init.bin").write_bytes(bytes(1024))
    (folder / "spyrecode.json").write_text(json.dumps(job))
    return str(folder)


def test_a_job_of_another_card_is_read_and_not_run(tmp_path):
    job = prepare_kernel(write(tmp_path / "job", foreign()))
    assert (job.num_steps(), job.job_allocation_size()) == (3, 4096)
    assert [job.get_step_type(at) for at in range(3)] == ["HostCompute", "H2D", "Compute"]
    with pytest.raises(RuntimeError, match="compiled for another card"):
        launch_jobplan(job, [])
    with pytest.raises(RuntimeError, match="compiled for another card"):
        launch_kernel(tmp_path / "job", [torch.ones(4, device="spyre")])
    torch.spyre.synchronize()


def test_transfers_to_the_host_are_steps(tmp_path):
    job = foreign()
    job["JobExecPlan"] = [
        {"command": "ComputeOnDevice", "properties": {"job_bin_ptr": str(BASE), "name": "k"}},
        {
            "command": "DataTransfer",
            "properties": {"dirn": "true", "host_handle": "out", "dev_ptr": str(BASE), "size": "0"},
        },
    ]
    plan = prepare_kernel(write(tmp_path / "job", job))
    assert [plan.get_step_type(at) for at in range(2)] == ["Compute", "D2H"]


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(RuntimeError, match="SpyreCode directory does not exist"):
        prepare_kernel(tmp_path / "nowhere")
    with pytest.raises(RuntimeError, match="spyrecode.json not found"):
        prepare_kernel(tmp_path)
    with pytest.raises(TypeError):
        prepare_kernel(3)


@pytest.mark.parametrize("name", ["ohandle", "size", "ishape", "ihandle", "hcm"])
def test_a_missing_property_is_named(tmp_path, name):
    job = foreign()
    del job["JobExecPlan"][0]["properties"][name]
    with pytest.raises(RuntimeError, match=f"ComputeOnHost command missing '{name}' property"):
        prepare_kernel(write(tmp_path / "job", job))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ishape", "1", "ComputeOnHost 'ishape' must be an array"),
        ("ishape", [1], "ComputeOnHost 'ishape' elements must be strings"),
        ("ihandle", "X", "ihandle 'X' not found in pinned buffer map"),
        ("hcm", "{}", "ComputeOnHost 'hcm' must be an object"),
    ],
)
def test_a_wrong_property_is_named(tmp_path, name, value, text):
    job = foreign()
    job["JobExecPlan"][0]["properties"][name] = value
    with pytest.raises(RuntimeError, match=text):
        prepare_kernel(write(tmp_path / "job", job))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"JobPreparationPlan": []}'])
def test_what_is_no_job_is_refused(tmp_path, text):
    write(tmp_path / "job", foreign())
    (tmp_path / "job" / "spyrecode.json").write_text(text)
    with pytest.raises(RuntimeError, match="spyrecode.json: "):
        prepare_kernel(tmp_path / "job")


def test_a_damaged_plan_is_refused(sample, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(sample("add"), folder)
    image = folder / "image-0.bin"
    image.write_bytes(image.read_bytes()[:-1] + b"\xff")
    with pytest.raises(RuntimeError, match="checksum"):
        launch_kernel(folder, [])
    (folder / "plan.json").write_text("{}")
    with pytest.raises(RuntimeError, match="plan.json"):
        launch_kernel(folder, [])


# What is asked wrongly: nothing is queued.


def test_wrong_tensors_are_named(sample):
    folder = sample("add")
    good = lambda *size, **options: torch.ones(size, device="spyre", **options)  # noqa: E731
    a, c, both = good(4, 5), good(4, 5), good(5, 5)
    for tensors, text in [
        ([a, a], r"takes 3 tensors \(a, b, c\), and 2 were given"),
        ([a, torch.ones(4, 5), c], "Expected all tensors to be on the same device"),
        ([torch.ones(4, 5)] * 3, "Expected all tensors to be on spyre, but found cpu"),
        ([a, good(4, 6), c], "dim columns is 5 in tensor .* but 6"),
        ([a, good(4), c], 'tensor "b" has 1 dimensions'),
        ([a, good(4, 5, dtype=torch.float16), c], 'tensor "b" holds float16'),
        ([both[:4], a, both[1:]], 'tensor "c" is written and shares memory'),
        ([a, a, good(1, 5).expand(4, 5)], 'tensor "c" is written, but its stride of 0'),
        ([a, good(4, 5).view(torch.int16)[:, ::2], c], 'tensor "b" holds int16'),
        ([a, torch._neg_view(good(4, 5)), c], "resolve_neg"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            launch_kernel(folder, tensors)
    with pytest.raises(RuntimeError, match="takes 0 scalars, and 1 were given"):
        launch_kernel(folder, [a, a, c], [1.0])
    with pytest.raises(RuntimeError, match="no prepared plan of number 12345678"):
        torch.ops.spyre._launch("", 12345678, [a], [], "here.py", 1)
    launch_kernel(folder, [a, a, c])
    assert torch.equal(c.cpu(), torch.full((4, 5), 2.0))


def test_a_plan_for_other_numbers_is_refused(sample, tmp_path, python):
    folder = tmp_path / "other"
    other = "open" if CARD else "card"
    python(
        f"""
        import torch
        from torch_spyre._C import _save_sample_plan
        _save_sample_plan("add", {str(folder)!r}, torch.float16)
        """,
        SPYRE_PROFILE=other,
    )
    x = torch.ones(4, 4, dtype=torch.float16, device="spyre")
    with pytest.raises(RuntimeError, match="compile it for the device's profile"):
        launch_kernel(folder, [x, x, torch.empty_like(x)])


# What goes wrong later.


@pytest.mark.skipif(WAITS, reason="launches wait")
def test_a_fault_is_raised_by_the_next_call_that_waits(sample):
    folder = sample("div", torch.int32)
    seven = torch.full((3, 4), 7, dtype=torch.int32).to("spyre")
    zero, result = torch.zeros(3, 4, dtype=torch.int32).to("spyre"), torch.empty_like(seven)

    launch_kernel(folder, [seven, zero, result])  # this line
    with pytest.raises(RuntimeError, match="divided by zero") as raised:
        torch.spyre.synchronize()

    text = str(raised.value)
    assert '(launch "div")' in text
    line = next(at for at, code in enumerate(open(__file__), 1) if "# this line" in code and "launch_kernel(" in code)
    assert f"launched at {__file__}:{line}" in text
    torch.spyre.synchronize()
    launch_kernel(folder, [seven, seven, result])
    assert torch.equal(result.cpu(), torch.ones(3, 4, dtype=torch.int32)), "the stream goes on"


@pytest.mark.skipif(WAITS, reason="launches wait")
def test_a_fault_stops_its_own_stream_only(sample):
    folder = sample("div", torch.int32)
    seven = torch.full((3, 4), 7, dtype=torch.int32).to("spyre")
    zero = torch.zeros(3, 4, dtype=torch.int32).to("spyre")
    bad, good = torch.spyre.Stream(), torch.spyre.Stream()
    with bad:
        launch_kernel(folder, [seven, zero, torch.empty_like(seven)])
    with good:
        result = torch.empty_like(seven)
        launch_kernel(folder, [seven, seven, result])
        assert torch.equal(result.cpu(), torch.ones(3, 4, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="divided by zero"):
        bad.synchronize()
    bad.synchronize()


def test_launches_that_wait_raise_at_the_call(sample, python):
    folder = sample("div", torch.int32)
    python(
        f"""
        import torch
        from torch_spyre.kernels import launch_kernel
        x = torch.ones(3, 4, dtype=torch.int32).to("spyre")
        zero = torch.zeros(3, 4, dtype=torch.int32).to("spyre")
        try:
            launch_kernel({folder!r}, [x, zero, torch.empty_like(x)])
        except RuntimeError as error:
            assert 'launch "div"' in str(error) and "divided by zero" in str(error)
        else:
            raise AssertionError("it did not wait")
        torch.spyre.synchronize()
        """,
        SPYRE_LAUNCH_BLOCKING="1",
    )


def test_a_reset_takes_plans_away_and_folders_are_read_again(sample, python):
    python(
        f"""
        import torch
        from torch_spyre.kernels import launch_jobplan, launch_kernel, prepare_kernel
        folder = {sample("add")!r}
        x, y = torch.ones(4, 4).to("spyre"), torch.empty(4, 4, device="spyre")
        job = prepare_kernel(folder)
        launch_kernel(folder, [x, x, y])
        torch.spyre.synchronize()
        torch.spyre.reset_device()
        try:
            launch_kernel(folder, [x, x, y])
        except RuntimeError as error:
            print(error)
        else:
            raise AssertionError("its tensors are gone")
        x, y = torch.ones(4, 4).to("spyre"), torch.empty(4, 4, device="spyre")
        launch_kernel(folder, [x, x, y])
        assert y.cpu().eq(2).all()
        try:
            launch_jobplan(job, [x, x, y])
        except RuntimeError as error:
            assert "reset" in str(error), error
        else:
            raise AssertionError("the plan is gone")
        """
    )


def test_launches_in_a_forked_child_raise(sample, python):
    python(
        f"""
        import os, torch
        from torch_spyre.kernels import launch_kernel, prepare_kernel
        folder = {sample("add")!r}
        x, y = torch.ones(4, 4).to("spyre"), torch.empty(4, 4, device="spyre")
        job = prepare_kernel(folder)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                launch_kernel(folder, [x, x, y])
            except RuntimeError as error:
                code = 0 if "fork" in str(error) else 2
            try:
                prepare_kernel(folder)
                code = 3
            except RuntimeError as error:
                code = code or (0 if "fork" in str(error) else 4)
            del job, x, y
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        launch_kernel(folder, [x, x, y])
        assert y.cpu().eq(2).all()
        """
    )
