"""The device under PyTorch's modes: nothing that has no memory is read, and nothing ends the process."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from conftest import needs_spyre

pytestmark = needs_spyre


def test_a_generators_state_is_real_under_fake_tensors():
    torch.spyre.manual_seed(5)
    with FakeTensorMode():
        state = torch.spyre.get_rng_state()
        states = torch.spyre.get_rng_state_all()
    assert type(state) is torch.Tensor and torch.equal(state, torch.spyre.get_rng_state())
    assert torch.equal(states[0], state)
    torch.spyre.set_rng_state(state)


def test_a_state_without_memory_is_refused():
    with FakeTensorMode():
        fake = torch.zeros(16, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="has no memory|data is not allocated|data pointer"):
        torch.spyre.set_rng_state(fake)


def test_random_numbers_under_fake_tensors_leave_the_generator_alone():
    torch.spyre.manual_seed(5)
    before = torch.spyre.get_rng_state()
    with FakeTensorMode():
        assert torch.rand(3, device="spyre").shape == (3,)
    assert torch.equal(torch.spyre.get_rng_state(), before)


def test_states_are_forked_under_fake_tensors():
    torch.spyre.manual_seed(5)
    before = torch.spyre.get_rng_state()
    with FakeTensorMode(), torch.random.fork_rng(device_type="spyre"):
        torch.spyre.manual_seed(6)
    assert torch.equal(torch.spyre.get_rng_state(), before)


def test_programs_of_the_cpu_run_under_local_tensors(python):
    python(
        """
        import torch
        from torch.distributed._local_tensor import LocalTensorMode
        with LocalTensorMode(2):
            x = torch.rand(3) + torch.ones(3)
            torch.get_rng_state(), torch.spyre.get_rng_state()
            assert x.shape == (3,)
        """
    )


def test_a_fake_tensor_has_the_layout_of_a_real_one():
    with FakeTensorMode():
        fake = torch.ones(4, 5, device="spyre")
        assert fake.get_stick_dims() == [1]
        assert torch.zeros(4, 5, device="spyre", stick_dims=[0]).get_stick_dims() == [0]
        assert fake.restickify([0]).get_stick_dims() == [0]


SCHEMAS = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("spyre::")]


def arguments(op, x):
    """Something for each argument; whether it makes sense is not asked."""
    values = {"Tensor": x, "int": 1, "float": 1.0, "number": 1.0, "bool": False, "Device": torch.device("spyre")}
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if argument.has_default_value():
            yield argument.default_value
        elif kind == "List[int]" and ("size" in argument.name or "shape" in argument.name):
            yield list(x.shape)
        elif kind == "List[int]":
            yield [0] if argument.name in ("stick_dims", "dims", "offsets") else [64, 1]
        elif kind == "List[Tensor]":
            yield [x]
        else:
            yield values.get(kind, torch.float16 if "Scalar" in kind else None)


KINDS = {
    "fake": lambda call: _under(FakeTensorMode(), call),
    "meta": lambda call: call(torch.ones(4, 64, dtype=torch.float16, device="meta")),
    "vmap": lambda call: torch.vmap(call)(torch.ones(2, 4, 64, dtype=torch.float16, device="spyre")),
    "grad": lambda call: torch.func.vjp(call, torch.ones(4, 64, dtype=torch.float16, device="spyre")),
    "functionalize": lambda call: torch.func.functionalize(call)(torch.ones(4, 64, device="spyre")),
}


def _under(mode, call):
    with mode:
        return call(torch.ones(4, 64, dtype=torch.float16, device="spyre"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_an_operation_of_ours_answers_or_raises(name, kind):
    base, _, overload = name.removeprefix("spyre::").partition(".")
    op = getattr(getattr(torch.ops.spyre, base), overload or "default")
    try:
        result = KINDS[kind](lambda x: op(*arguments(op, x)))
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
        assert "INTERNAL ASSERT" not in str(error)
    else:
        assert kind != "meta" or not isinstance(result, torch.Tensor) or result.device.type in ("meta", "spyre")


@pytest.mark.parametrize("length", [0, 1, 2, 5, 16])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_windows_of_kaiser(no_fallback, length, dtype):
    for options in ((), (True,), (False,), (False, 3.5), (True, 0.0)):
        ours = torch.kaiser_window(length, *options, dtype=dtype, device="spyre")
        assert ours.dtype == dtype and ours.device.type == "spyre"
        torch.testing.assert_close(ours.cpu(), torch.kaiser_window(length, *options, dtype=dtype))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.kaiser_window(-1, device="spyre")
    with pytest.raises(RuntimeError, match="floating point"):
        torch.kaiser_window(3, dtype=torch.int32, device="spyre")


@torch.jit.script
def masked(x):
    x[x < 50] = 1
    return x


@torch.jit.script
def indexed(x, at):
    x[at, 1:3] = 7.0
    return x[at], x[:, at], x[x > 5]


@pytest.mark.filterwarnings("ignore")
def test_scripts_index_with_tensors():
    assert torch.equal(masked(torch.arange(100, device="spyre")).cpu(), masked(torch.arange(100)))
    ours, theirs = (indexed(torch.arange(12.0, device=d).reshape(3, 4), torch.tensor([0, -1], device=d))
                    for d in ("spyre", "cpu"))  # fmt: skip
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one.cpu(), other)
    # The CPU's kernel, for what has none here.
    complex_ones = torch.arange(100).to(torch.complex64)
    assert torch.equal(torch.jit.script(_put)(complex_ones.to("spyre")).cpu(), _put(complex_ones))


def _put(x):
    x[torch.tensor([1, 2])] = 3
    return x
