"""The runtime by its own names: the workflows of the execution pipeline, from Python."""

from __future__ import annotations

import os

import pytest
import torch

from torch_spyre._C import _save_sample_plan as save_sample
from torch_spyre.runtime import (
    ControlBlockStream,
    CopyFromDevice,
    CopyToDevice,
    CPUTensor,
    DeviceHandle,
    DeviceLaunch,
    ExecutionPlan,
    Operation,
    PreProcessCompute,
    SpyreCompute,
    SpyreDeviceLayout,
    SpyreStream,
    device_handle,
    launch_kernel,
)

CARD = os.environ.get("SPYRE_PROFILE", "open").strip().lower() == "card"
MODE = "PF" if os.environ.get("FLEX_DEVICE") == "PF" else "VF"
DOUBLE = """
kernel double(i, j) {
    in x: float32[i, j]
    out y: float32[i, j]
    y = x + x
}
"""
PICK = """
kernel pick(tokens, rows, columns) {
    in at: int64[tokens]
    in table: float32[rows, columns]
    out y: float32[tokens, columns]
    y = table[at, columns]
}
"""


@pytest.fixture
def folder(tmp_path):
    """Saves a plan that was assembled by hand, and says where."""

    def save(name: str, tile=None) -> str:
        path = tmp_path / f"{name}-{tile}"
        save_sample(name, path, torch.float32, tile)
        return str(path)

    return save


def numbers(*size: int) -> torch.Tensor:
    """Small whole numbers: sums and products of them are exact."""
    return torch.randint(-4, 5, size, generator=torch.Generator().manual_seed(sum(size))).float()


def kinds(operation: Operation) -> list[str]:
    return [type(step).__name__ for step in operation.preprocessing]


# Workflow 1: a tensor is allocated and copied.


def test_workflow_1_a_tensor_goes_there_and_back():
    stream, host = SpyreStream(), numbers(70, 130)
    tensor = torch.empty(70, 130, device="spyre")
    back = CPUTensor.like(tensor)

    load = Operation([CopyToDevice(host, tensor)])
    stream.launch(load)
    stream.launch(Operation([CopyFromDevice(back, tensor)]))
    stream.synchronize()

    assert load.compute is None and kinds(load) == ["CopyToDevice"] and load.name == "copies"
    assert torch.equal(back.torch(), host) and torch.equal(tensor.cpu(), host)


def test_a_copy_says_its_two_sides_and_its_device_bytes():
    tensor = torch.empty(3, 40, device="spyre")
    step = CopyToDevice(torch.ones(3, 40), tensor)

    assert isinstance(step, PreProcessCompute) and isinstance(step, PreProcessCompute.CopyToDevice)
    assert step.device_handle == device_handle(tensor) and step.size == 3 * 2 * 128
    assert step.host_address.shape == (3, 40)


def test_bytes_are_copied_as_they_are():
    stream, tensor = SpyreStream(), torch.zeros(64, dtype=torch.float32, device="spyre")
    torch.spyre.synchronize()
    values = torch.arange(16, dtype=torch.float32)
    stream.launch(Operation([CopyToDevice(values, device_handle(tensor), offset=128)]))
    back = CPUTensor(torch.zeros(16, dtype=torch.float32))
    stream.launch(Operation([CopyFromDevice(back, device_handle(tensor), 64, offset=128)]))
    stream.synchronize()

    assert torch.equal(back.torch(), values)
    assert torch.equal(tensor.cpu()[32:48], values) and tensor.cpu()[:32].count_nonzero() == 0


def test_a_host_tensor_is_lent_until_the_copy_is_done():
    stream, tensor = SpyreStream(), torch.ones(1500, 1500, device="spyre")
    back = CPUTensor.like(tensor)
    torch.spyre.synchronize()
    with stream:
        for _ in range(4):
            tensor @ tensor
    stream.launch(Operation([CopyFromDevice(back, tensor)]))
    with pytest.raises(RuntimeError, match="synchronize first"):
        back.torch()
    stream.synchronize()
    assert back.torch().sum() == 1500 * 1500


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda x: CopyToDevice(torch.ones(2, 2), x), RuntimeError, "shape"),
        (lambda x: CopyToDevice(x, x), ValueError, "on the CPU"),
        (lambda x: CopyToDevice(torch.ones(3, 3), torch.ones(3, 3)), RuntimeError, "on spyre"),
        (lambda x: CopyFromDevice(torch.ones(3, 3), x), TypeError, "CPUTensor"),
        (lambda x: Operation([x]), TypeError, "PreProcessCompute"),
        (lambda x: Operation("steps", [CopyToDevice(torch.ones(3, 3), x)]), TypeError, "SpyreCompute"),
        (lambda x: SpyreStream().launch(Operation([])), RuntimeError, "operation"),
        (lambda x: SpyreStream().launch(Operation([DeviceLaunch(device_handle(x))])), RuntimeError, "program"),
        (lambda x: SpyreStream().launch(Operation([CopyToDevice(torch.ones(99), device_handle(x), offset=1 << 30)])),
         RuntimeError, "past|outside|range"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, error, words):
    x = torch.zeros(3, 3, device="spyre")
    torch.spyre.synchronize()
    stream = torch.spyre.current_stream()
    with pytest.raises(error, match=words):
        made = make(x)
        torch.spyre.synchronize()
        pytest.fail(f"made {made}")
    for other in range(1, 65):
        torch.spyre.Stream(stream_id=other, device_index=0, device_type=stream.device_type).reset()
    assert x.cpu().count_nonzero() == 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s, plan, x: launch_kernel(s, plan, [x, x]), RuntimeError, "takes 3 tensors"),
        (lambda s, plan, x: launch_kernel(s, plan, [x, x, None]), TypeError, "not a NoneType"),
        (lambda s, plan, x: launch_kernel(s, plan, [x, x, x.cpu()]), RuntimeError, "on spyre"),
        (lambda s, plan, x: launch_kernel(s, plan, [x.to("meta")] * 3), RuntimeError, "found meta"),
        (lambda s, plan, x: launch_kernel(s, plan, [x, x, x.half()]), RuntimeError, "float16"),
        (lambda s, plan, x: launch_kernel(s, plan, [x, x, x], [1]), RuntimeError, "takes 0 scalars"),
        (lambda s, plan, x: launch_kernel(s, "plans/add", [x, x, x]), TypeError, "ExecutionPlan"),
        (lambda s, plan, x: launch_kernel(torch.Stream("cpu"), plan, [x, x, x]), ValueError, "spyre stream"),
        (lambda s, plan, x: launch_kernel(s, ExecutionPlan(), [x]), RuntimeError, "nothing to launch"),
        (lambda s, plan, x: s.launch(ExecutionPlan(torch.spyre.compile(DOUBLE)).operations[0], [x, x]),
         RuntimeError, "is not loaded"),
        (lambda s, plan, x: ExecutionPlan(3), TypeError, "not from a int"),
        (lambda s, plan, x: ExecutionPlan("/nowhere"), RuntimeError, "/nowhere"),
        (lambda s, plan, x: Operation(None), TypeError, "SpyreCompute"),
        (lambda s, plan, x: CPUTensor([1, 2]), TypeError, "not a list"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(folder, call, error, words):
    plan, x = ExecutionPlan(folder("add")), torch.ones(8, 8, device="spyre")
    with pytest.raises(error, match=words):
        call(SpyreStream(), plan, x)
    y = torch.empty(8, 8, device="spyre")
    launch_kernel(torch.spyre.current_stream(), plan, [x, x, y])
    assert y.cpu().unique().tolist() == [2]


# Workflow 2: a plan is made from a compiler's output and loaded.


def test_workflow_2_a_plan_is_loaded_binary_by_binary(folder):
    stream, plan = SpyreStream(), ExecutionPlan(folder("matmul"))
    (operation,) = plan.operations
    assert not plan.is_loaded and operation.device_handles == [] and operation.compute.device_handle is None

    with torch.spyre.trace() as trace:
        plan.load(stream)

    assert plan.is_loaded and len(operation.device_handles) == 3
    correction, compute, code = operation.device_handles
    assert operation.compute.device_handle == compute and len({correction, compute, code}) == 3
    loads = [one for one in trace.operations if one.steps == ["CopyToDevice"] and not one.has_compute]
    assert len(loads) == 3, "each binary goes by an Operation of its own"
    plan.load(stream)
    assert plan.operations[0].device_handles == operation.device_handles, "it is there already"


def test_a_plan_says_what_the_compiler_wrote(folder):
    plan = ExecutionPlan(folder("matmul", (64, 64, 64)))
    (operation,) = plan.operations
    assert [tensor.name for tensor in plan.tensor_input_metadata] == ["a", "b", "c"]
    assert [tensor.is_written for tensor in plan.tensor_input_metadata] == [False, False, True]
    assert plan.tensor_input_metadata[0].shape == (64, 64) and plan.tensor_input_metadata[0].dtype == torch.float32
    assert isinstance(operation.compute, SpyreCompute)
    assert operation.compute.expected_input_shapes == [[64, 64]] * 3
    assert kinds(operation) == ["CopyToDevice", "DeviceLaunch"]
    assert plan.correction_metadata == [operation.preprocessing[0].size] == [operation.compute.correction_bytes]
    assert operation.preprocessing[0].host_address is None and operation.preprocessing[1].device_handle is None
    assert isinstance(plan.init_packets, list) and "matmul" in repr(plan)


def test_plans_of_kernels_and_of_parts(folder):
    double = ExecutionPlan(torch.spyre.compile(DOUBLE))
    added = ExecutionPlan()
    assert added.operations == []
    for operation in double.operations:
        added.add_operation(Operation.corrected(operation.compute))
        assert kinds(added.operations[-1]) == kinds(operation)
    x, y = numbers(40, 50), torch.empty(40, 50, device="spyre")
    launch_kernel(SpyreStream(), added, [x.to("spyre"), y])
    torch.spyre.synchronize()
    assert torch.equal(y.cpu(), 2 * x)


# Workflow 3: a launch of what was compiled for.


@pytest.mark.parametrize("form", ["launch", "launch_kernel", "by name"])
def test_workflow_3_a_launch_of_the_compiled_shape(folder, form):
    stream, plan = SpyreStream(), ExecutionPlan(folder("matmul", (64, 64, 64)))
    a, b, c = numbers(64, 64), numbers(64, 64).T.contiguous(), torch.empty(64, 64, device="spyre")
    tensors = [a.to("spyre"), b.to("spyre"), c]
    plan.load(stream)
    torch.spyre.synchronize()

    version = c._version
    with torch.spyre.trace() as trace:
        if form == "launch":
            stream.launch(plan.operations[0], tensors)
        elif form == "launch_kernel":
            launch_kernel(stream, plan, tensors)
        else:
            torch.spyre.launch_kernel(stream=stream, plan=plan, tensors=tensors)
        stream.synchronize()

    assert torch.equal(c.cpu(), a @ b) and c._version > version
    (operation,) = trace.operations
    assert (operation.steps, operation.has_compute, operation.stream) == (["CopyToDevice", "DeviceLaunch"], True, stream.id)
    assert "matmul" in operation.name


def test_a_strict_launch_refuses_larger_tensors(folder):
    stream, plan = SpyreStream(), ExecutionPlan(folder("matmul", (64, 64, 64)))
    plan.load(stream)
    tensors = [torch.ones(128, 64, device="spyre"), torch.ones(64, 64, device="spyre"), torch.empty(128, 64, device="spyre")]
    with pytest.raises(RuntimeError, match="128"):
        stream.launch(plan.operations[0], tensors)


def test_operations_take_their_steps_apart(folder):
    """Steps of one's own and a correction, in one Operation."""
    stream, plan = SpyreStream(), ExecutionPlan(folder("add"))
    plan.load(stream)
    compute, (inputs, correction) = plan.operations[0].compute, plan.operations[0].preprocessing
    a, b, c = (torch.zeros(20, 30, device="spyre") for _ in range(3))
    torch.spyre.synchronize()
    operation = Operation(compute, [CopyToDevice(numbers(20, 30), a), inputs, correction])
    stream.launch(operation, [a, b, c])
    stream.synchronize()
    assert torch.equal(c.cpu(), numbers(20, 30)) and kinds(operation) == ["CopyToDevice", "CopyToDevice", "DeviceLaunch"]


# Workflow 4: tiles.


def test_workflow_4_larger_tensors_are_tiled(folder):
    stream, plan = SpyreStream(), ExecutionPlan(folder("matmul", (64, 64, 64)))
    a, b, c = numbers(256, 64), numbers(64, 64), torch.empty(256, 64, device="spyre")
    tensors = [a.to("spyre"), b.to("spyre"), c]
    plan.load(stream)
    torch.spyre.synchronize()

    with torch.spyre.trace() as trace:
        stream.launch_tiled(plan.operations[0], tensors)
        stream.synchronize()

    assert torch.equal(c.cpu(), a @ b)
    assert trace.blocks == 12 and trace.kernels == 4, "three blocks for each of four tiles"


# Workflow 5: from a CPU tensor to a result, by PyTorch's own calls.


def test_workflow_5_what_pytorch_does_is_operations():
    a, b = numbers(90, 64), numbers(64, 32)
    torch.spyre.synchronize()
    with torch.spyre.trace() as trace:
        on_device = a.to("spyre")
        result = on_device @ b.to("spyre")
        again = on_device @ b.to("spyre")
        result.cpu()

    assert torch.equal(again.cpu(), a @ b)
    copies = [one.steps for one in trace.operations if not one.has_compute and one.name == "copies" and one.tensors]
    assert copies == [["CopyToDevice"], ["CopyToDevice"], ["CopyToDevice"], ["CopyFromDevice"]]
    products = [one for one in trace.operations if one.has_compute]
    assert len(products) == 2 and products[0].name == products[1].name
    assert products[0].steps == ["CopyToDevice", "DeviceLaunch"]


# Workflow 6: several streams.


def test_workflow_6_streams_are_independent(folder):
    add, matmul = ExecutionPlan(folder("add")), ExecutionPlan(folder("matmul"))
    stream_a, stream_b = SpyreStream(), SpyreStream(priority=1)
    x, y = numbers(128, 128), numbers(128, 128) + 1
    on_device = [x.to("spyre"), y.to("spyre")]
    sums, products = torch.empty(128, 128, device="spyre"), torch.empty(128, 128, device="spyre")
    torch.spyre.synchronize()

    launch_kernel(stream_a, add, [*on_device, sums])
    launch_kernel(stream_b, matmul, [*on_device, products])
    stream_a.synchronize()
    stream_b.synchronize()

    assert stream_a != stream_b and (stream_a.priority, stream_b.priority) == (0, -1)
    assert torch.equal(sums.cpu(), x + y) and torch.equal(products.cpu(), x @ y)


def test_one_plan_on_two_streams_has_programs_of_its_own_on_each(folder):
    plan, streams = ExecutionPlan(folder("add")), [SpyreStream(), SpyreStream()]
    plan.load(streams[0])
    handles = [plan.operations[0].device_handles_on(stream) for stream in streams]
    assert handles[0][:2] != handles[1][:2] and handles[0][2] == handles[1][2], "only the code is shared"


# Composed control blocks.


def test_control_blocks_are_composed_once_and_replayed(folder):
    stream, plan = SpyreStream(), ExecutionPlan(folder("add"))
    plan.load(stream)
    total, one = torch.zeros(50, 60, device="spyre"), torch.ones(50, 60, device="spyre")
    torch.spyre.synchronize()
    blocks = ControlBlockStream(stream)
    with pytest.raises(RuntimeError, match="empty"):
        blocks.finalize()
    blocks.append(plan.operations[0], [total, one, total])
    with pytest.raises(RuntimeError, match="finalize it first"):
        blocks.replay()
    blocks.append(plan.operations[0], [total, total, total])
    blocks.finalize()
    assert len(blocks) == 6 and blocks.is_final
    with pytest.raises(RuntimeError, match="compose a new one"):
        blocks.append(plan.operations[0], [total, one, total])

    version = total._version
    for _ in range(3):
        blocks.replay()
        launch_kernel(stream, plan, [total, one, total])  # which corrects the stream's own program
    stream.synchronize()

    expected = 0
    for _ in range(3):
        expected = (expected + 1) * 2 + 1
    assert total.cpu().unique().tolist() == [expected] and total._version >= version + 9


def test_a_composition_of_tiles(folder):
    stream, plan = SpyreStream(), ExecutionPlan(folder("matmul", (64, 64, 64)))
    plan.load(stream)
    a, b, c = numbers(128, 128), numbers(128, 64), torch.empty(128, 64, device="spyre")
    tensors = [a.to("spyre"), b.to("spyre"), c]
    torch.spyre.synchronize()
    blocks = ControlBlockStream(stream)
    blocks.append(plan.operations[0], tensors)
    blocks.finalize()
    for _ in range(2):
        blocks.replay()
        stream.synchronize()
        assert torch.equal(c.cpu(), a @ b)
        c.zero_()
        torch.spyre.synchronize()
    assert len(blocks) == 3 * 4


def test_copies_of_host_memory_cannot_be_composed():
    tensor = torch.empty(4, device="spyre")
    with pytest.raises(RuntimeError, match="copy"):
        ControlBlockStream().append(Operation([CopyToDevice(torch.ones(4), tensor)]))


def test_a_composition_behind_a_fault_is_poisoned_like_any_launch(folder):
    stream, plan = SpyreStream(), ExecutionPlan(folder("add"))
    plan.load(stream)
    x, y = torch.ones(5, 5, device="spyre"), torch.empty(5, 5, device="spyre")
    torch.spyre.synchronize()
    blocks = ControlBlockStream(stream)
    blocks.append(plan.operations[0], [x, x, y])
    blocks.finalize()
    with stream, pytest.raises((IndexError, RuntimeError)):
        x.index_select(0, torch.tensor([99], device="spyre"))
        blocks.replay()
        stream.synchronize()
    with pytest.raises(RuntimeError, match="holds no result"):
        y.cpu()
    blocks.replay()
    stream.synchronize()
    assert y.cpu().unique().tolist() == [2]


# Handles and layouts.


def test_handles():
    x, y = torch.empty(10, device="spyre"), torch.empty(10, device="spyre")
    handle = device_handle(x)
    assert isinstance(handle, DeviceHandle) and handle == device_handle(x[3:]) != device_handle(y)
    assert len({device_handle(x), handle, device_handle(y)}) == 2 and handle.mode == MODE
    if MODE == "VF":
        assert handle.region_id >= 0 and handle.vf_offset % 128 == 0
        with pytest.raises(AttributeError, match="region_id and vf_offset"):
            handle.physical_address
    else:
        assert handle.physical_address % 128 == 0
        with pytest.raises(AttributeError, match="physical_address"):
            handle.region_id
    with pytest.raises(RuntimeError, match="spyre"):
        device_handle(torch.ones(3))


def test_device_layouts_say_which_dims_are_whose():
    layout = SpyreDeviceLayout([512, 8, 240], torch.float16)
    assert layout.device_size == [8, 4, 512, 64] and layout.device_strides == [131072, 32768, 64, 1]
    assert layout.dim_map == [1, 2, 0, 2] and layout.padding == [0, 0, 16]
    assert layout.stick_dims() == [2]


def test_gradients_are_not_lost_in_silence(folder):
    plan = ExecutionPlan(folder("add"))
    x = torch.ones(5, 5, device="spyre", requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        launch_kernel(SpyreStream(), plan, [x, x, torch.empty(5, 5, device="spyre")])


def test_a_launch_names_its_line_when_it_fails(python, tmp_path):
    code = f"""
        import torch
        from torch_spyre.runtime import *
        table, at = torch.ones(5, 64, device="spyre"), torch.tensor([7], device="spyre")
        kernel = torch.spyre.compile({PICK!r})
        stream = SpyreStream()
        launch_kernel(stream, ExecutionPlan(kernel), [at, table, torch.empty(1, 64, device="spyre")])
        stream.synchronize()
    """
    run = python(code, check=False)
    assert "IndexError" in run.stderr and "launched at" in run.stderr, run.stderr
