"""Runs the samples of one operator with fallbacks forbidden, and says whether all stayed on the device."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch_spyre import _C

from . import judge

READ_BACK = {
    "aten::_local_scalar_dense",
    "aten::allclose",
    "aten::bincount",
    "aten::equal",
    "aten::is_nonzero",
    "aten::masked_select",
    "aten::nonzero",
    "aten::nonzero_static",
    "aten::repeat_interleave",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::_unique",
    "aten::_unique2",
}
"""Operators whose meaning is that the host learns something: a number, or how large a result is."""

PREFERRED = (torch.float32, torch.int64, torch.bool, torch.complex64)
"""float32, and for operators that have no samples of it, the first that they have."""


@dataclass
class Native:
    """Results of the samples of one operator, forward or backward."""

    passed: int = 0
    failed: int = 0
    unmeasured: int = 0
    launches: int = 0
    first: str = ""
    """Error of the first sample that failed."""

    @property
    def is_native(self) -> bool:
        return self.failed == 0 and self.passed > 0

    def fail(self, error: BaseException) -> None:
        self.failed += 1
        lines = [line for line in str(error).splitlines() if line.strip()]
        self.first = self.first or f"{type(error).__name__}: {' '.join(lines[:3])[:200]}"


@dataclass
class Overloads:
    """Calls and failures of each overload."""

    called: Counter = field(default_factory=Counter)
    failed: Counter = field(default_factory=Counter)


class Watch(TorchDispatchMode):
    """Takes note of the overloads that reach the device."""

    def __init__(self, overloads: Overloads):
        super().__init__()
        self.overloads, self.seen = overloads, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name()
        self.seen.add(name)
        if any(leaf.is_complex() for leaf in leaves((args, kwargs))):
            # Another dtype than the one that is judged: a transform's result, say.
            return function(*args, **(kwargs or {}))
        self.overloads.called[name] += 1
        try:
            return function(*args, **(kwargs or {}))
        except NotImplementedError:
            self.overloads.failed[name] += 1
            raise


def dtype_of(op) -> torch.dtype | None:
    supported = op.supported_dtypes("cpu")
    return next((dtype for dtype in PREFERRED if dtype in supported), None)


def forward(op, dtype, device, overloads: Overloads) -> Native:
    """Every sample, without gradients."""
    native = Native()
    torch.manual_seed(42)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in judge.samples(op, dtype):
            forward_one(op, sample, dtype, device, native, overloads)
    return native


def forward_one(op, sample, dtype, device, native: Native, overloads: Overloads) -> None:
    arguments = (sample.input, sample.args, sample.kwargs)
    try:
        expected = judge.call(op, tree_map(judge.copied, arguments))
    except Exception:  # noqa: BLE001 (what the CPU refuses is not the device's to do)
        native.unmeasured += 1
        return
    watch = Watch(overloads)
    try:
        there = moved(op, arguments, device)
        with judge.default_device(arguments, device), on_the_device_only(native, watch):
            given = judge.call(op, there)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        return native.fail(error)
    try:
        loose = judge.is_random(op.name, sample.kwargs)
        exact = lambda: judge.call(op, tree_map(judge.wider, arguments))  # noqa: E731
        judge.compare_twice(given, expected, exact, judge.tolerance(op, dtype), device, False, loose)
    except Exception as error:  # noqa: BLE001
        blame(op, watch, overloads)
        return native.fail(error)
    native.passed += 1


def blame(op, watch: Watch, overloads: Overloads) -> None:
    """A wrong number is the fault of the overloads that have the operator's name."""
    for name in watch.seen:
        if name.removeprefix("aten::").partition(".")[0].strip("_") == op.aten_name:
            overloads.failed[name] += 1


def moved(op, arguments, device):
    there = tree_map(lambda leaf: judge.moved(leaf, device, False), arguments)
    return (there[0], *arguments[1:]) if op.name in judge.KEPT_ON_THE_CPU else there


@contextlib.contextmanager
def on_the_device_only(native: Native, watch: Watch):
    """Fallbacks are refused, and the counters of copies say that nothing went to the host."""
    before, mode = _C.traffic(), _C.fallback_mode()
    _C.set_fallback_mode("error")
    try:
        with watch:
            yield
    finally:
        _C.set_fallback_mode(mode)
    after = _C.traffic()
    native.launches += after["launches"] - before["launches"]
    copies = after["copies_to_host"] - before["copies_to_host"]
    read_back = {name.partition(".")[0] for name in watch.seen} & READ_BACK
    assert not copies or read_back, f"{copies} copies to the host, by {', '.join(sorted(watch.seen))}"


def backward(op, dtype, device) -> Native:
    """Every sample that has gradients: those of all inputs, for the same gradients of all results."""
    native = Native()
    torch.manual_seed(42)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in gradient_samples(op, dtype):
            backward_one(op, sample, dtype, device, native)
    return native


def gradient_samples(op, dtype):
    try:
        yield from op.sample_inputs("cpu", dtype, requires_grad=True)
    except (RuntimeError, ValueError, NotImplementedError, ImportError, ModuleNotFoundError):
        return


def backward_one(op, sample, dtype, device, native: Native) -> None:
    arguments = (sample.input, sample.args, sample.kwargs)
    try:
        expected, weights = gradients(op, sample, arguments, None)
    except Exception:  # noqa: BLE001
        native.unmeasured += 1
        return
    if not expected:
        return
    try:
        there = with_gradients(arguments, moved(op, tree_map(detached, arguments), device))
        weights = [weight.to(device) for weight in weights]
        with judge.default_device(arguments, device), on_the_device_only(native, Watch(Overloads())):
            given, _ = gradients(op, sample, there, weights)
        if not judge.is_random(op.name, sample.kwargs):
            wide = with_gradients(arguments, tree_map(judge.wider, tree_map(detached, arguments)))
            exact = lambda: gradients(op, sample, wide, [judge.wider(w.cpu()) for w in weights])[0]  # noqa: E731
            judge.compare_twice(given, expected, exact, judge.tolerance(op, dtype), device, False, False)
    except Exception as error:  # noqa: BLE001
        return native.fail(error)
    native.passed += 1


def gradients(op, sample, arguments, weights):
    """The gradients of every input that has one, and what the results' gradients were."""
    inputs = [leaf for leaf in leaves(arguments) if leaf.requires_grad]
    results = [r for r in leaves(sample.output_process_fn_grad(judge.call(op, arguments))) if r.requires_grad]
    if not inputs or not results:
        return [], []
    if weights is None:
        generator = torch.Generator().manual_seed(7)
        weights = [torch.rand(r.shape, generator=generator).to(r.dtype) for r in results]
    given = torch.autograd.grad(results, inputs, weights, allow_unused=True)
    return [gradient for gradient in given if gradient is not None], weights


def leaves(value) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def detached(leaf):
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def with_gradients(arguments, there):
    """Detached tensors of the device that require a gradient where the host's do."""
    asks = [isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in tree_flatten(arguments)[0]]
    flat, shape = tree_flatten(there)
    flat = [leaf.detach().requires_grad_() if asked else leaf for leaf, asked in zip(flat, asks, strict=True)]
    return tree_unflatten(flat, shape)
