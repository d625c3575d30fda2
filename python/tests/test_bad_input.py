"""Wrong calls raise what they raise on CPU or CUDA tensors, and none of them ends the process."""

import pytest
import torch
import torch.nn.functional as F

import children
from conftest import needs_spyre

MIXED = "Expected all tensors to be on the same device|expected to be in the same device"

SAME_AS_THE_CPU = {
    "index past the end": lambda x: x[7],
    "index before the start": lambda x: x[-6],
    "index of a third dimension": lambda x: x[0, 0, 0],
    "index that is a float": lambda x: x[1.5],
    "slice with a negative step": lambda x: x[::-1],
    "select past the end": lambda x: x.select(1, 4),
    "select in no dimension": lambda x: x.select(2, 0),
    "narrow past the end": lambda x: x.narrow(0, 3, 4),
    "narrow of negative length": lambda x: x.narrow(0, 0, -1),
    "transpose of no dimension": lambda x: x.transpose(0, 5),
    "permute of too few": lambda x: x.permute(0),
    "permute with a repeat": lambda x: x.permute(0, 0),
    "view of another size": lambda x: x.view(3, 7),
    "view of strided memory": lambda x: x.t().view(20),
    "view with two unknowns": lambda x: x.view(-1, -1),
    "view as a wider dtype": lambda x: x[:, :3].contiguous().view(torch.float64),
    "view_as_complex of four": lambda x: torch.view_as_complex(x),
    "reshape of another size": lambda x: x.reshape(7),
    "expand of a real dimension": lambda x: x.expand(5, 8),
    "expand to fewer dimensions": lambda x: x.expand(4),
    "squeeze of no dimension": lambda x: x.squeeze(9),
    "unfold past the end": lambda x: x.unfold(0, 9, 1),
    "as_strided past the storage": lambda x: x.as_strided((100,), (1,), 0),
    "as_strided with a negative stride": lambda x: x.as_strided((2,), (-1,), 4),
    "as_strided with a negative offset": lambda x: x.as_strided((2,), (1,), -4),
    "as_strided with unequal lists": lambda x: x.as_strided((2, 2), (1,), 0),
    "split of nothing": lambda x: x.split([1, 1]),
    "item of many": lambda x: x.item(),
    "truth of many": lambda x: bool(x),
    "int of many": lambda x: int(x),
    "len of a scalar": lambda x: len(x[0, 0]),
    "iteration over a scalar": lambda x: iter(x[0, 0]),
    "copy_ of another shape": lambda x: x.copy_(torch.ones(3, 3)),
    "copy_ of a list": lambda x: x.copy_([1, 2]),
    "assignment of another shape": lambda x: x.__setitem__(0, torch.ones(3, device=x.device)),
    "write through an expanded tensor": lambda x: x[:1].expand(4, 4).add_(1),
    "copy_ into an expanded tensor": lambda x: x[:1].expand(4, 4).copy_(torch.ones(4, 4)),
    "in-place change of dtype": lambda x: x.long().add_(1.5),
    "in-place change of shape": lambda x: x[:1].add_(x),
    "gather past the end": lambda x: x.gather(1, torch.full((5, 1), 9, device=x.device)),
    "gather with floats": lambda x: x.gather(1, torch.zeros(5, 1, device=x.device)),
    "index_select past the end": lambda x: x.index_select(0, torch.tensor([9], device=x.device)),
    "embedding past the end": lambda x: F.embedding(torch.tensor([9], device=x.device), x),
    "index tensor past the end": lambda x: x[torch.tensor([9], device=x.device)],
    "index_put_ past the end": lambda x: x.index_put_((torch.tensor([9], device=x.device),), x[0]),
    "scatter_ past the end": lambda x: x.scatter_(1, torch.full((5, 1), 9, device=x.device), 1.0),
    "scatter_ a tensor past the end": lambda x: x.scatter_(1, torch.full((5, 1), 9, device=x.device), x),
    "scatter_add_ past the end": lambda x: x.scatter_add_(1, torch.full((5, 1), 9, device=x.device), x),
    "index_add_ past the end": lambda x: x.index_add_(0, torch.tensor([9], device=x.device), x[:1]),
    "index_fill_ past the end": lambda x: x.index_fill_(0, torch.tensor([9], device=x.device), 1.0),
    "index_copy_ past the end": lambda x: x.index_copy_(0, torch.tensor([9], device=x.device), x[:1]),
    "a target past the end": lambda x: F.nll_loss(x, torch.full((5,), 9, device=x.device)),
    "take past the end": lambda x: x.take(torch.tensor([99], device=x.device)),
    "cross entropy of no class": lambda x: F.cross_entropy(x, torch.full((5,), 9, device=x.device)),
    "mask of another shape": lambda x: x[torch.ones(3, dtype=torch.bool, device=x.device)],
    "matmul of unequal sizes": lambda x: x @ x,
    "cat of unequal sizes": lambda x: torch.cat([x, x[:, :2]]),
    "cat of nothing": lambda x: torch.cat([]),
    "stack of unequal sizes": lambda x: torch.stack([x, x[1:]]),
    "softmax over no dimension": lambda x: x.softmax(4),
    "argmax of nothing": lambda x: x[:0].argmax(),
    "max of nothing": lambda x: x[:0].max(),
    "linear algebra on integers": lambda x: torch.linalg.inv(torch.ones(2, 2, device=x.device).int()),
    "a singular matrix": lambda x: torch.linalg.inv(torch.zeros(2, 2, device=x.device)),
    "a negative size": lambda x: torch.empty(-1, device=x.device),
    "a negative size among others": lambda x: x.new_zeros(3, -2),
    "a negative stride": lambda x: torch.empty_strided((2,), (-1,), device=x.device),
    "unequal sizes and strides": lambda x: torch.empty_strided((2, 2), (1,), device=x.device),
    "a size that overflows": lambda x: torch.empty(2**40, 2**40, device=x.device),
    "a stride that overflows": lambda x: torch.empty_strided((2, 2), (2**62, 2**62), device=x.device),
    "a size past int64": lambda x: torch.empty(2**70, device=x.device),
    "a size that is text": lambda x: torch.empty("3", device=x.device),
    "a ragged list": lambda x: torch.tensor([[1, 2], [3]], device=x.device),
    "a list of text": lambda x: torch.tensor(["a"], device=x.device),
    "resize_ to a negative size": lambda x: x.resize_(-1),
    "set_ past int64": lambda x: x.set_(x.untyped_storage(), 0, (2**40, 2**40), (1, 1)),
    "set_ at a negative offset": lambda x: x.set_(x.untyped_storage(), -1, (1,), (1,)),
    "storage.resize_ to a negative size": lambda x: x.untyped_storage().resize_(-1),
    "a storage index past the end": lambda x: x.cpu().untyped_storage()[80],
    "arange of no step": lambda x: torch.arange(0, 5, 0, device=x.device),
    "backward of no gradient": lambda x: x.sum().backward(),
    "requires_grad on integers": lambda x: x.long().requires_grad_(),
    "requires_grad_ leaf written": lambda x: x.clone().requires_grad_().add_(1),
    "to an unknown device": lambda x: x.to("spire"),
    "to an unknown dtype": lambda x: x.to("float"),
    "double to memory format": lambda x: x.contiguous(memory_format=torch.channels_last),
    "an unknown method": lambda x: x.no_such_method(),
}


def raised(call, tensor):
    try:
        result = call(tensor)
        # The device reports errors in the data when the host waits for it.
        torch.accelerator.synchronize()
    except Exception as error:  # noqa: BLE001 (its type is what is compared)
        return error
    return result


@pytest.mark.parametrize("name", SAME_AS_THE_CPU)
def test_the_exception_is_the_cpus(name, device):
    call = SAME_AS_THE_CPU[name]
    host = torch.arange(20, dtype=torch.float32).reshape(5, 4)

    expected = raised(call, host.clone())
    given = raised(call, host.to(device))

    assert isinstance(expected, Exception), f"the CPU gives {expected!r}"
    assert isinstance(given, Exception), f"no exception: {given!r}"
    assert isinstance(given, type(expected)), f"{given!r}, the CPU gives {expected!r}"


MIXES = {
    "add": lambda x, y: x + y,
    "add, reversed": lambda x, y: y + x,
    "add_": lambda x, y: x.add_(y),
    "mul_ of a CPU tensor": lambda x, y: y.mul_(x),
    "comparison": lambda x, y: x < y,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "mm": lambda x, y: x @ y,
    "addmm": lambda x, y: torch.addmm(x, x, y),
    "bmm": lambda x, y: torch.bmm(x[None], y[None]),
    "linear": lambda x, y: F.linear(x, y),
    "linear, bias": lambda x, y: F.linear(x, x, y[0]),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([y, x]),
    "index_select": lambda x, y: x.index_select(0, y[0].long()),
    "gather": lambda x, y: x.gather(0, y.long()),
    "index_add": lambda x, y: x.index_add(0, torch.arange(3, device=x.device), y),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 1.0),
    "embedding": lambda x, y: F.embedding(y.long(), x),
    "layer_norm": lambda x, y: F.layer_norm(x, (3,), y[0], y[0]),
    "out=": lambda x, y: torch.add(x, x, out=y),
    "out= on the device": lambda x, y: torch.add(y, y, out=torch.empty_like(x)),
    "dot": lambda x, y: torch.dot(x[0], y[0]),
    "lerp": lambda x, y: torch.lerp(x, x, y),
    "conv2d": lambda x, y: F.conv2d(x[None, None], y[None, None]),
    "cross entropy": lambda x, y: F.cross_entropy(x, y[0].long()),
    "_foreach_add": lambda x, y: torch._foreach_add([x], [y]),
}


@needs_spyre
@pytest.mark.parametrize("name", MIXES)
def test_devices_do_not_mix(name, device):
    ones = torch.ones(3, 3)

    with pytest.raises(RuntimeError, match=MIXED):
        MIXES[name](ones.to(device), ones)


@needs_spyre
def test_what_cuda_lets_mix_may_mix(device):
    x = torch.arange(6, dtype=torch.float32, device=device).reshape(2, 3)

    assert torch.equal((x + torch.tensor(2.0)).cpu(), x.cpu() + 2)
    assert torch.equal((torch.tensor(2.0) * x).cpu(), x.cpu() * 2)
    assert torch.equal(x[torch.tensor([1])].cpu(), x.cpu()[[1]])
    assert torch.equal(x[torch.tensor([True, False])].cpu(), x.cpu()[:1])
    x[0] = torch.ones(3)
    assert torch.equal(x.cpu()[0], torch.ones(3))


@needs_spyre
def test_a_huge_tensor_is_out_of_memory_and_the_next_one_fits(device):
    with pytest.raises(torch.OutOfMemoryError, match=r"[0-9]"):
        torch.empty(2**50, dtype=torch.uint8, device=device)
    with pytest.raises(RuntimeError):
        torch.ones(1, device=device).expand(2**45).contiguous()

    assert torch.ones(3, device=device).sum().item() == 3


@needs_spyre
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.cpu(),
        lambda x: x + 1,
        lambda x: x.fill_(1),
        lambda x: x.clone(),
        lambda x: x.copy_(torch.ones(5)),
        lambda x: x[2].item(),
        lambda x: x.sum(),
    ],
    ids=["cpu", "add", "fill_", "clone", "copy_", "item", "sum"],
)
def test_a_storage_that_was_freed_is_refused(use, device):
    x = torch.arange(5, device=device)
    x.untyped_storage().resize_(0)

    with pytest.raises(RuntimeError):
        use(x)

    assert torch.ones(3, device=device).sum().item() == 3


@needs_spyre
def test_a_storage_that_was_freed_is_printed_with_the_reason():
    x = torch.arange(5, device="spyre")
    x.untyped_storage().resize_(0)
    assert "it was freed" in repr(x)


@needs_spyre
@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: torch.empty(1, device="spyre:99"), RuntimeError),
        (lambda: torch.ones(1).to("spyre:99"), RuntimeError),
        (lambda: torch.spyre.set_device(99), RuntimeError),
        (lambda: torch.spyre.set_device(-5), RuntimeError),
        (lambda: torch.spyre.Stream(device=99), RuntimeError),
        (lambda: torch.spyre.synchronize(99), RuntimeError),
        (lambda: torch.spyre.get_device_properties(99), (RuntimeError, AssertionError)),
        (lambda: torch.spyre.memory_allocated("cpu"), (RuntimeError, ValueError)),
        (lambda: torch.spyre.current_stream("cpu"), (RuntimeError, ValueError)),
        (lambda: torch.Stream(device="spyre:99"), RuntimeError),
        (lambda: torch.ones(2, device="spyre").numpy(), TypeError),
        (lambda: torch.ones(2, device="spyre").pin_memory(), RuntimeError),
        (lambda: torch.empty(2, device="spyre", pin_memory=True), RuntimeError),
        (lambda: torch.spyre.Event(enable_timing=True).elapsed_time(torch.spyre.Event()), (RuntimeError, ValueError)),
        (lambda: torch.spyre.set_rng_state(torch.zeros(3, dtype=torch.uint8)), (RuntimeError, ValueError)),
        (lambda: torch.rand(2, generator=torch.Generator("spyre")), RuntimeError),
        (lambda: torch.empty(2, device="spyre", layout=torch._mkldnn), (RuntimeError, NotImplementedError)),
    ],
)
def test_devices_and_streams_that_are_not_there_are_refused(call, kind):
    with pytest.raises(kind):
        call()

    assert torch.ones(3, device="spyre").sum().item() == 3


@needs_spyre
def test_a_stream_of_another_card_is_refused_or_switches_the_device():
    children.script(
        """
import torch

def refused(call):
    try:
        call()
    except RuntimeError:
        return True
    return False

here, there = torch.device("spyre:0"), torch.device("spyre:1")
stream = torch.spyre.Stream(device=there)
event = torch.spyre.Event()
event.record(torch.spyre.current_stream(here))
assert refused(lambda: event.record(stream)), "an event goes from card to card"

with torch.spyre.stream(stream):
    assert torch.spyre.current_device() == 1, "a stream brings its card"
    assert torch.ones(2, device="spyre").device == there
assert torch.spyre.current_device() == 0
assert torch.spyre.current_stream(there) != stream

x = torch.ones(3, device=here)
stream.wait_event(event)
x.record_stream(stream)
with torch.spyre.stream(stream):
    y = x.to(there) + 1
torch.spyre.synchronize(there)
assert torch.equal(y.cpu(), torch.full((3,), 2.0))
assert refused(lambda: x + y), "cards mix"
first, second = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
first.record(torch.spyre.current_stream(here)); second.record(stream)
first.synchronize(); second.synchronize()
assert refused(lambda: first.elapsed_time(second)), "time between cards"
""",
        AIU_WORLD_SIZE="2",
        SPYRE_FALLBACK="silent",
    )


CARD_REFUSES = """
import torch, warnings
warnings.simplefilter("ignore")
device = torch.device("spyre")

def refused(call, words):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
        return
    raise SystemExit(f"not refused: {words}")

for dtype in (torch.float64, torch.complex64, torch.complex128, torch.complex32):
    refused(lambda: torch.empty(3, dtype=dtype, device=device), "does not support dtype")
    refused(lambda: torch.ones(3, dtype=dtype).to(device), "does not support dtype")
    refused(lambda: torch.ones(3, device=device).to(dtype), "does not support dtype")
    refused(lambda: torch.zeros(3, device=device).double(), "does not support dtype")
refused(lambda: torch.ones(1, 2, 3, 4, device=device).contiguous(memory_format=torch.channels_last),
        "contiguous memory format")
refused(lambda: torch.empty((1,) * 7, device=device), "Unsupported tensor rank")
refused(lambda: torch.ones(4, dtype=torch.float16, device=device).view(torch.int16), "")
for source, target in ((torch.int8, torch.float16), (torch.float32, torch.int32), (torch.float16, torch.int64)):
    refused(lambda: torch.ones(3, dtype=source).to(device, dtype=target), "")
assert torch.equal(torch.ones(3, device=device).cpu(), torch.ones(3))
"""


@needs_spyre
def test_the_card_refuses_what_it_does_not_store():
    children.script(CARD_REFUSES, SPYRE_PROFILE="card")
