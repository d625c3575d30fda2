"""Operations that are done as other operations.

An operation that the device has no kernel for is first looked for here: in :mod:`.composites`, then among PyTorch's
own decompositions. What it is made of runs on the device, so ``SPYRE_FALLBACK=error`` refuses a decomposition
only if some part of it would need the CPU. Operations are looked up when they are first called, and ``EAGER_MODE=0``
leaves all of them to the CPU.

To have an operation done in a way of your own, also where the device has a kernel:

    @register_spyre_decomposition("aten::frac")
    def frac(x):              # on the device's own tensors
        return x - x.trunc()

    remove_spyre_decomposition("aten::frac")
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._ops import OpOverload

from .. import _C
from .composites.table import Declined
from .fallbacks import Op, _overloads, _refuse_views, _tensors, fallback_mode

__all__ = [
    "decomposition_stats",
    "decompositions_by_overload",
    "register_spyre_decomposition",
    "remove_spyre_decomposition",
    "spyre_decompositions",
]

Function = Callable[..., Any]

spyre_decompositions: dict[str, Function] = {}
"""Registered functions, by the overload's name, such as ``"aten::frac.out"``."""

_KEY = "PrivateUse3"
"""Functions of :func:`install` are kernels of a key that no tensor has: ``csrc/decompositions.cpp`` calls them."""

_libraries: dict[str, torch.library.Library] = {}
_installed: list[torch.library.Library] = []
_taken: set[tuple[Any, ...]] = set()
"""Overloads with the dtypes that the CPU was asked about, and takes."""
_MOST_ASKED = 1 << 20
_UNKNOWN_TO_THE_CPU = {torch.uint16, torch.uint32, torch.uint64}
"""Dtypes that the device computes with where the CPU has next to nothing for them."""
_counts: Counter[str] = Counter()
_running = threading.local()


def decomposition_stats() -> dict[str, int]:
    """Returns how often each operation was done as others, by the overload's name."""
    return dict(_counts)


def decompositions_by_overload() -> dict[OpOverload, Function]:
    """Returns the functions of the package and those that were registered, by overload."""
    from . import composites

    named = {**composites.FUNCTIONS, **spyre_decompositions}
    overloads = {name: _named(name) for name in named}  # those of packages that are not there are none
    return {overload: named[name] for name, overload in overloads.items() if overload is not None}


def register_spyre_decomposition(ops: Op | Iterable[Op]) -> Callable[[Function], Function]:
    """Has a function do one or more operations as others, in place of the device's kernels and the CPU's.

    The function is called as the operation is, with tensors of the device. Forms that write (``out=``, in place)
    are done by it, too: it is called without what is written, and its results are copied there. An overload is
    named in full (``"aten::add.Tensor"``); a name without one means all that compute anew or into ``out=``.
    To register an operation again replaces the function.
    """

    def register(function: Function) -> Function:
        for overload in _overloads(ops):
            _register(overload, function)
        return function

    return register


def remove_spyre_decomposition(ops: Op | Iterable[Op]) -> None:
    """Undoes it: the operations are done as they were before."""
    names = [overload.name() for overload in _overloads(ops)]
    registered = {name: None for name in names if name in _libraries}
    if not registered:
        raise ValueError(f"no decomposition of {', '.join(names)} is registered")
    for name in registered:
        del spyre_decompositions[name]
        _libraries.pop(name)._destroy()


def _register(overload: OpOverload, function: Function) -> None:
    _refuse_views(overload)
    name = overload.name()
    if name in _libraries:
        _libraries.pop(name)._destroy()
    namespace, _, rest = name.partition("::")
    # One library each, so that one can be taken back alone.
    library = torch.library.Library(namespace, "IMPL")
    kernel = functools.partial(_once, overload, _of_its_form(overload, function))
    library.impl(rest, kernel, "PrivateUse1", allow_override=True)
    _libraries[name] = library
    spyre_decompositions[name] = function


def _once(overload: OpOverload, function: Function, *args: Any, **kwargs: Any) -> Any:
    """Calls a registered function. Raises if it is running already: an operation is not a part of itself."""
    running: set[str] = _running.__dict__.setdefault("names", set())
    name = overload.name()
    if name in running:
        raise RecursionError(f"{name} is decomposed into itself: its function must do without it")
    running.add(name)
    try:
        _counts[name] += 1
        return function(*args, **kwargs)
    finally:
        running.discard(name)


def install(name: str) -> bool:
    """Returns True if this overload has a decomposition, which is a kernel from now on."""
    overload = _named(name)
    function = None if overload is None else _decomposition_of(overload)
    if overload is None or function is None:
        return False
    namespace, _, rest = name.partition("::")
    library = torch.library.Library(namespace, "IMPL")
    library.impl(rest, functools.partial(_tried, overload, function), _KEY)
    _installed.append(library)
    return True


def _tried(overload: OpOverload, function: Function, *args: Any, **kwargs: Any) -> Any:
    """Calls a decomposition; what it does not take goes to the CPU, which also says what is wrong."""
    _ask_the_cpu(overload, args, kwargs)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        if not isinstance(error, Declined) and (fallback_mode() == "error" or not _is_known_to_the_cpu(overload)):
            raise
        # An operation is not decomposed while it is: this goes to the CPU.
        return overload(*args, **kwargs)
    _counts[overload.name()] += 1
    return result


def _ask_the_cpu(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Has the CPU refuse numbers that it does not compute with; it is asked once for each dtype but floats.

    Decompositions take what their parts take: a softmax of whole numbers would be all zeros. It is asked with zeros, so
    that nothing is copied or waited for, and not with very many: what is in the tensors is not its business.
    """
    given = _tensors([*args, *kwargs.values()])
    if not given or given[0].dtype.is_floating_point or given[0].dtype in _UNKNOWN_TO_THE_CPU:
        return
    key = (overload.name(), *(tensor.dtype for tensor in given))
    is_large = sum(tensor.numel() for tensor in given) > _MOST_ASKED
    if key in _taken or is_large or not _is_repeatable(overload):
        return
    # Zeros may be refused for what they are, such as pivots, which count from one: then the tensors are asked about.
    if _refusal(overload, args, kwargs, _zeros) is not None:
        refusal = _refusal(overload, args, kwargs, _copy)
        if refusal is not None:
            raise refusal
    _taken.add(key)


def _refusal(
    overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], on_the_host: Callable[[Any], Any]
) -> RuntimeError | None:
    """Returns the CPU's error for arguments. A singular matrix and a division by zero are none."""
    args, kwargs = torch.utils._pytree.tree_map(on_the_host, (args, kwargs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            overload(*args, **kwargs)
        except (torch.linalg.LinAlgError, ZeroDivisionError):
            return None
        except RuntimeError as error:
            return None if "ZeroDivisionError" in str(error) else error
    return None


def _is_repeatable(overload: OpOverload) -> bool:
    """Returns True if the CPU can do an operation, and to do it once more changes no random state."""
    return torch.Tag.nondeterministic_seeded not in overload.tags and _is_known_to_the_cpu(overload)


def _is_known_to_the_cpu(overload: OpOverload) -> bool:
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(overload.name(), "CPU")


def _zeros(value: Any) -> Any:
    """Returns zeros on the host in a tensor's shape; any other value as the host has it."""
    return torch.zeros(value.shape, dtype=value.dtype) if isinstance(value, torch.Tensor) else _copy(value)


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _named(name: str) -> OpOverload | None:
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def _decomposition_of(overload: OpOverload) -> Function | None:
    """A function for this overload: its own, or that of the form that writes nothing."""
    for form in (overload, _functional(overload)):
        function = None if form is None else _known(form)
        if function is not None:
            return _of_its_form(overload, function)
    return None


def _known(overload: OpOverload) -> Function | None:
    from . import composites

    name = overload.name()
    if name in composites.FUNCTIONS:
        return composites.FUNCTIONS[name]
    if name in composites.CPU_ONLY or _written(overload):
        return None
    from torch._decomp import decomposition_table

    return decomposition_table.get(overload)


def _functional(overload: OpOverload) -> OpOverload | None:
    """The overload that computes the same and writes nothing."""
    if not _written(overload):
        return None
    namespace, _, rest = overload.name().partition("::")
    base = rest.partition(".")[0]
    packets = [base.removesuffix("_"), base]
    wanted = _signature(overload)
    for packet in (getattr(getattr(torch.ops, namespace), name, None) for name in packets):
        for other in (getattr(packet, name) for name in packet.overloads()) if packet else ():
            if not _written(other) and _signature(other) == wanted:
                return other
    return None


def _signature(overload: OpOverload) -> list[tuple[str, str]]:
    """Returns the names and types of an overload's arguments, without its ``out`` ones."""
    return [(a.name, str(a.type)) for a in overload._schema.arguments if not a.is_out]


def _written(overload: OpOverload) -> list[torch.Argument]:
    return [a for a in overload._schema.arguments if a.alias_info is not None and a.alias_info.is_write]


def _of_its_form(overload: OpOverload, function: Function) -> Function:
    """A function that computes anew, as one that writes where the overload does."""
    written = _written(overload)
    if not written or getattr(function, "_writes", False):
        return function
    places = {argument.name: at for at, argument in enumerate(overload._schema.arguments)}
    outs = {argument.name for argument in written if argument.is_out}
    flags = set(_C.operator_flags(overload.name()))

    def write(*args: Any, **kwargs: Any) -> Any:
        given = [kwargs[a.name] if a.name in kwargs else args[places[a.name]] for a in written]
        if "Apart" in flags:
            _check_apart(_tensors(given), _tensors(args))
        result = function(*args, **{name: value for name, value in kwargs.items() if name not in outs})
        targets, values = _tensors(given), _tensors(result)
        others = [(target, value) for target, value in zip(targets, values, strict=True) if target.dtype != value.dtype]
        if others and "ExactDType" in flags:
            target, value = others[0]
            raise RuntimeError(f"expected a result of {value.dtype}, not {target.dtype}")
        if outs and others:
            raise Declined("results of another dtype are the CPU's to refuse, or to convert")
        if "Rows" in flags:
            values = [value.contiguous() for value in values]
        for target, value in zip(targets, values, strict=True):
            if outs and target.shape != value.shape and "SilentResize" in flags:
                target.resize_(value.shape)
            _store(target, value, may_resize=bool(outs))
        return None if not overload._schema.returns else targets[0] if len(targets) == 1 else tuple(targets)

    return write


def _check_apart(written: list[torch.Tensor], given: list[torch.Tensor]) -> None:
    if any(torch._C._overlaps(target, tensor) for target in written for tensor in given):
        raise RuntimeError("unsupported operation: some elements of the input and the written-to tensor are the same")


def _store(target: torch.Tensor, value: torch.Tensor, may_resize: bool) -> None:
    if not torch.can_cast(value.dtype, target.dtype):
        raise RuntimeError(f"result type {value.dtype} can't be cast to the desired output type {target.dtype}")
    if target.shape != value.shape:
        if not may_resize:
            raise RuntimeError(f"output with shape {list(target.shape)} doesn't match {list(value.shape)}")
        _resize(target, value)
    target.copy_(value)


def _resize(target: torch.Tensor, value: torch.Tensor) -> None:
    """Gives a result its shape and strides, with PyTorch's warning if there was something in it."""
    from torch._prims_common import is_non_overlapping_and_dense_or_false
    from torch._prims_common.wrappers import _resize_output_check

    _resize_output_check(target, value.shape)
    target.resize_(value.shape)
    if is_non_overlapping_and_dense_or_false(value):
        target.as_strided_(value.shape, value.stride())
