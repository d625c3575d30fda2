"""Storages of the device: what PyTorch's methods say of them, and do with them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from conftest import needs_spyre

pytestmark = pytest.mark.filterwarnings("ignore")


def storage(device, size=8):
    return torch.arange(size, dtype=torch.uint8, device=device).untyped_storage()


def typed(device):
    return torch.arange(4.0, device=device).storage()


def put(device, key, value):
    made = storage(device)
    made[key] = value
    return made.tolist()


METHODS = {
    "tolist": lambda d: storage(d).tolist(),
    "list": lambda d: list(storage(d)),
    "len": lambda d: (len(storage(d)), storage(d).size(), storage(d).nbytes(), storage(d).element_size()),
    "from a list": lambda d: torch.UntypedStorage([1, 2, 3], device=d).tolist(),
    "an element": lambda d: (storage(d)[3], storage(d)[-1]),
    "no element": lambda d: storage(d)[30],
    "a slice": lambda d: storage(d)[2:5].tolist(),
    "a slice with steps": lambda d: storage(d)[2:5:2],
    "set": lambda d: (put(d, 3, 9), put(d, -1, 9), put(d, slice(2, 5), 9)),
    "set past the end": lambda d: put(d, 30, 9),
    "fill_": lambda d: storage(d).fill_(7).tolist(),
    "clone": lambda d: storage(d).clone().tolist(),
    "copy": lambda d: (copy.copy(storage(d)).tolist(), copy.deepcopy(storage(d)).tolist()),
    "pickle": lambda d: pickle.loads(pickle.dumps(storage(d))).tolist(),
    "copy_": lambda d: storage(d).copy_(storage(d).fill_(3)).tolist(),
    "copy_ from the host": lambda d: storage(d).copy_(torch.UntypedStorage([9] * 8)).tolist(),
    "copy_ to the host": lambda d: torch.UntypedStorage(8).copy_(storage(d)).tolist(),
    "copy_ of another size": lambda d: storage(d).copy_(storage(d, 4)).tolist(),
    "resize_": lambda d: (storage(d).resize_(16).nbytes(), storage(d).resize_(16).tolist()[:8]),
    "resize_ down": lambda d: (storage(d).resize_(4).tolist(), storage(d).resize_(0).tolist()),
    "cpu": lambda d: (storage(d).cpu().device.type, storage(d).cpu().tolist()),
    "is": lambda d: (storage(d).is_pinned(), storage(d).is_cuda, storage(d).is_sparse, storage(d).is_shared()),
    "resizable": lambda d: (storage(d).resizable(), storage(d).filename),
    "casts": lambda d: [getattr(storage(d), name)().tolist() for name in ("float", "half", "long", "bool")],
    "typed": lambda d: (typed(d).tolist(), typed(d)[2], typed(d)[1:3].tolist(), typed(d).double().tolist()),
    "typed, changed": lambda d: (typed(d).fill_(3).tolist(), typed(d).resize_(8).size(), typed(d).clone().tolist()),
    "set_": lambda d: torch.empty(0, device=d).set_(torch.arange(4.0, device=d).untyped_storage(), 1, (2,)).tolist(),
    "set_ to nothing": lambda d: tuple(torch.ones(3, device=d).set_().shape),
    "set_ before the start": lambda d: torch.empty(0, device=d).set_(storage(d), -1, (2,)),
    "set_ of another dtype": lambda d: torch.empty(0, device=d).set_(torch.arange(4, device=d)),
}


def outcome(call, device):
    try:
        return call(device)
    except Exception as error:  # noqa: BLE001
        return type(error)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_does_what_it_does_on_the_cpu(device, name):
    assert outcome(METHODS[name], device) == outcome(METHODS[name], "cpu")


@needs_spyre
@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.UntypedStorage(0, device="spyre"),
        lambda: torch.UntypedStorage(device="spyre"),
        lambda: torch.UntypedStorage(8, device="spyre"),
        lambda: torch.UntypedStorage(0, device="spyre").resize_(8),
        lambda: torch.UntypedStorage(8, device="spyre").resize_(0),
        lambda: torch.TypedStorage(0, dtype=torch.float32, device="spyre"),
        lambda: torch.empty(0, device="spyre").set_(torch.UntypedStorage(0, device="spyre")).untyped_storage(),
        lambda: storage("cpu").to(device=torch.device("spyre")),
    ],
)
def test_a_storage_is_on_its_device_also_when_it_is_empty(made):
    assert made().device == torch.device("spyre", 0)
    assert made().get_device() == 0


@needs_spyre
def test_what_only_memory_of_the_host_can_do_is_refused():
    with pytest.raises(TypeError, match="only CPU memory can be pinned"):
        storage("spyre").pin_memory()
    with pytest.raises(RuntimeError, match="belongs to one process"):
        storage("spyre").share_memory_()
    with pytest.raises(RuntimeError, match="swapped on the host"):
        storage("spyre").byteswap(torch.int16)
    with pytest.raises(RuntimeError, match="bytes cannot be allocated"):
        storage("spyre").resize_(-1)


class Wrapper(torch.Tensor):
    """A tensor without memory of its own."""

    @staticmethod
    def __new__(cls, inner):
        size, dtype, device = inner.size(), inner.dtype, inner.device
        return torch.Tensor._make_wrapper_subclass(cls, size, dtype=dtype, device=device, strides=inner.stride())

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(function)


def test_a_wrapper_takes_the_storage_of_another(device):
    one, other = Wrapper(torch.ones(3, device=device)), Wrapper(torch.ones(5, device=device))
    with torch._C._DisableTorchDispatch():
        torch.ops.aten.set_.source_Tensor(one, other)
        assert one.shape == (5,)
        one.set_(other.untyped_storage(), 0, (4,), (1,))
        assert one.shape == (4,)
    assert one.untyped_storage().device == other.untyped_storage().device


@needs_spyre
def test_a_wrapper_has_no_memory_to_compute_with():
    with torch._C._DisableTorchDispatch(), pytest.raises(RuntimeError, match="no memory"):
        torch.ops.aten.neg.default(Wrapper(torch.ones(3, device="spyre"))).cpu()
