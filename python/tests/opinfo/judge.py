"""Runs the samples of one operator and dtype on both sides, and says what came of each."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.utils._pytree import tree_flatten, tree_map

RANDOM = (
    "bernoulli",
    "cauchy",
    "dropout",
    "empty",
    "exponential",
    "fractional_max_pool",
    "geometric",
    "log_normal",
    "lowrank",
    "multinomial",
    "normal",
    "rand",
    "rrelu",
    "uniform",
)
DETERMINISTIC = ("addr", "normalize", "_norm", "normal_ppf")
"""Names that only look random."""

WHICH_OF_EQUALS = {"topk": 1, "kthvalue": 1, "mode": 0}
"""Operators that may tell the place of any of several equal elements, and where their dim is given."""

WITHOUT_STATISTICS = ("native_batch_norm", "_native_batch_norm_legit")
"""Operators that leave the means and deviations out without training, on the CPU and nowhere else (pytorch #85960)."""

KEPT_ON_THE_CPU = ("tensor_split",)
"""Operators that take their further tensors from the CPU, on every device."""

REFUSALS = ("does not support dtype", "only supports contiguous memory format", "bits are not the host's")
"""The words with which the card refuses dtypes, memory formats and bit views that it does not have."""

CARD_TOLERANCE = 1e-2


@dataclass
class Verdict:
    """Results of the samples of one operator and dtype."""

    passed: int = 0
    by_shape_only: int = 0
    by_float64: int = 0
    """Passed samples that differ from the CPU's result, but agree with its result in float64."""
    failed: int = 0
    refused: int = 0
    """Samples with a dtype, memory format or bit view that the card does not have."""
    unmeasured: int = 0
    """Samples that the CPU itself refuses."""
    messages: Counter = field(default_factory=Counter)

    def as_json(self) -> dict:
        return {**self.__dict__, "messages": dict(self.messages)}


def dtypes(op, card: bool) -> list[torch.dtype]:
    """The dtypes of which `op` has samples on the CPU; under `card` float16 alone."""
    supported = op.supported_dtypes("cpu")
    return sorted(supported & {torch.float16} if card else supported, key=str)


def judge(op, dtype: torch.dtype, device: torch.device, card: bool) -> Verdict:
    """Runs every sample of `op` in `dtype`."""
    verdict = Verdict()
    torch.manual_seed(42)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(op, dtype):
            one(op, sample, dtype, device, card, verdict)
    return verdict


def samples(op, dtype: torch.dtype):
    """The samples, made on the CPU; an operator whose generator itself fails has none."""
    try:
        yield from op.sample_inputs("cpu", dtype, requires_grad=False)
    except (RuntimeError, ValueError, NotImplementedError, ImportError, ModuleNotFoundError):
        return


def one(op, sample, dtype, device, card, verdict: Verdict) -> None:
    arguments = (sample.input, sample.args, sample.kwargs)
    try:
        there = tree_map(lambda leaf: moved(leaf, device, card), arguments)
        if op.name in KEPT_ON_THE_CPU:
            there = (there[0], sample.args, sample.kwargs)
        start = reference_inputs(arguments, there, device, card)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        return count_failure(error, card, verdict)
    loose = is_random(op.name, sample.kwargs)
    try:
        expected = call(op, tree_map(copied, start))
        kinds = dtypes_of(call(op, tree_map(copied, arguments))) if card else dtypes_of(expected)
    except Exception:  # noqa: BLE001 (what the CPU refuses is not the device's to do)
        verdict.unmeasured += 1
        return
    try:
        with default_device(arguments, device):
            given = call(op, there)
        assert dtypes_of(given) == kinds, f"dtypes {dtypes_of(given)} against {kinds}"
        if op.name in WHICH_OF_EQUALS and len(kinds) == 2:
            given, expected = places_checked(op, sample, start[0], given), expected[0]
        exact = None if card else lambda: call(op, tree_map(wider, arguments))
        verdict.by_float64 += compare_twice(given, expected, exact, tolerance(op, dtype), device, card, loose)
    except Exception as error:  # noqa: BLE001
        return count_failure(error, card, verdict)
    verdict.passed += 1
    verdict.by_shape_only += loose


def count_failure(error: Exception, card: bool, verdict: Verdict) -> None:
    if card and any(words in str(error) for words in REFUSALS):
        verdict.refused += 1
        return
    verdict.failed += 1
    lines = [line for line in str(error).splitlines() if line.strip()]
    verdict.messages[f"{type(error).__name__}: {' | '.join(lines[:4])[:300]}"] += 1


def default_device(arguments, device: torch.device):
    """Makes `device` the default for calls that name no device and hold no tensor."""
    leaves = tree_flatten(arguments)[0]
    names_device = any(isinstance(leaf, (torch.Tensor, torch.device)) or leaf == "cpu" for leaf in leaves)
    return contextlib.nullcontext() if names_device else device


def dtypes_of(result) -> list[torch.dtype]:
    return [leaf.dtype for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]


def call(op, arguments):
    first, rest, named = arguments
    made = op(first, *rest, **named)
    return with_statistics(rest, made) if getattr(op, "name", "") in WITHOUT_STATISTICS else made


def with_statistics(rest, made):
    """The results of a norm; running means and deviations are in the place of those that are left out."""
    normed, *kept = made
    if all(part.numel() for part in kept):
        return made
    _, _, means, variances, _, _, epsilon = rest
    return normed, *(part.detach().to(left.dtype) for part, left in zip((means, (variances + epsilon).rsqrt()), kept))


def moved(leaf, device: torch.device, card: bool):
    if isinstance(leaf, torch.Tensor):
        return on_device(contiguous(leaf) if card else leaf, device)
    if isinstance(leaf, torch.device):
        return device
    return str(device) if isinstance(leaf, str) and leaf == "cpu" else leaf


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The card has no channels_last: a user brings such tensors as contiguous ones."""
    for dim, form in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if tensor.dim() == dim and tensor.layout == torch.strided:
            if tensor.is_contiguous(memory_format=form):
                return tensor.contiguous()
    return tensor


def on_device(tensor: torch.Tensor, device: torch.device, dtype=None) -> torch.Tensor:
    """A copy with its strides and offset, as a user who works on the device would hold it."""
    if tensor.layout != torch.strided or tensor.is_nested:
        return tensor.to(device, dtype, copy=True)
    plain = tensor.is_conj() or tensor.is_neg() or tensor.untyped_storage().nbytes() > 1 << 26
    if plain:
        return tensor.to(device, dtype, copy=True)
    elements = tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)
    whole = tensor.detach().as_strided((elements,), (1,), 0).to(device, dtype, copy=True)
    return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def copied(leaf):
    return on_device(leaf, torch.device("cpu")) if isinstance(leaf, torch.Tensor) else leaf


def reference_inputs(arguments, there, device, card: bool):
    """Inputs of the CPU's computation: the samples, or under `card` the values that the card stores, as float64."""
    if not card:
        return arguments

    def decoded(leaf):
        if isinstance(leaf, torch.Tensor):
            wide = torch.float64 if leaf.dtype == torch.float16 else leaf.dtype
            return on_device(leaf, torch.device("cpu"), wide)
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if isinstance(leaf, str) and leaf == str(device):
            return "cpu"
        return torch.float64 if leaf == torch.float16 else leaf

    return tree_map(decoded, there)


def is_random(name: str, named: dict) -> bool:
    is_only_alike = any(word in name for word in DETERMINISTIC)
    if is_only_alike and not any(word in name for word in ("dropout", "log_normal")):
        return False
    # Its dropout comes by place, and only in training.
    drops_out = named.get("dropout_p") or ("multi_head_attention" in name and named.get("training"))
    return any(word in name for word in RANDOM) or bool(drops_out)


def tolerance(op, dtype: torch.dtype) -> tuple[float, float]:
    """PyTorch's own: the dtype's default, and what op_db allows for the operator."""
    relative, absolute = default_tolerances(dtype)
    for test in ("test_compare_cpu", "test_noncontiguous_samples", "test_out"):
        for decorator in op.get_decorators("TestCommon", test, "cpu", dtype, {}):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                allowed = decorator.d[dtype]
                relative, absolute = max(relative, allowed.rtol), max(absolute, allowed.atol)
    return relative, absolute


def places_checked(op, sample, whole: torch.Tensor, given) -> torch.Tensor:
    """The values of (values, indices), once it is seen that they are at these indices."""
    values, indices = (part.cpu() for part in given)
    at = WHICH_OF_EQUALS[op.name]
    dim = sample.args[at] if len(sample.args) > at else sample.kwargs.get("dim", -1)
    if whole.dim() and values.dim() < whole.dim():
        values, indices = values.unsqueeze(dim), indices.unsqueeze(dim)
    there = whole.gather(dim, indices).nan_to_num()
    assert torch.equal(there, values.nan_to_num().to(there.dtype)), "other values are there"
    return given[0]


def compare_twice(given, expected, exact, tolerances, device, card: bool, loose: bool) -> bool:
    """Compares with the CPU's results. These have errors of their own, so a result that differs may agree with float64
    instead: returns true if only that comparison held."""
    try:
        compare(given, expected, tolerances, device, card, loose)
        return False
    except AssertionError as error:
        try:
            compare(given, narrower(exact(), expected), tolerances, device, card, loose)
            return True
        except Exception:  # noqa: BLE001 (what float64 says is one way out only)
            raise error from None


WIDER = {torch.complex64: torch.complex128}
WIDER |= {narrow: torch.float64 for narrow in (torch.float32, torch.float16, torch.bfloat16)}


def wider(leaf):
    """Casts an input for the CPU's computation in float64."""
    if isinstance(leaf, torch.Tensor):
        return copied(leaf).to(WIDER.get(leaf.dtype, leaf.dtype))
    return WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf


def narrower(exact, expected):
    """Casts the results of float64 to the dtypes that are expected."""
    return tree_map(lambda e, w: e.to(w.dtype) if isinstance(w, torch.Tensor) else e, exact, expected)


def compare(given, expected, tolerances, device, card: bool, loose: bool) -> None:
    left, shape = tree_flatten(given)
    right, wanted = tree_flatten(expected)
    assert shape == wanted, f"structure {shape} against {wanted}"
    for actual, reference in zip(left, right):
        if isinstance(reference, torch.Tensor):
            compare_tensors(actual, reference, tolerances, device, card, loose)
        elif not loose and not isinstance(reference, torch.device):
            compare_plain(actual, reference, card)


def compare_plain(actual, reference, card: bool) -> None:
    assert type(actual) is type(reference), f"{type(actual)} against {type(reference)}"
    if isinstance(reference, (float, complex)):
        bounds = {"rtol": CARD_TOLERANCE, "atol": CARD_TOLERANCE} if card else {}
        torch.testing.assert_close(actual, reference, equal_nan=True, **bounds)
    else:
        assert actual == reference, f"{actual!r} against {reference!r}"


def compare_tensors(actual, reference, tolerances, device, card, loose) -> None:
    assert actual.device.type == device.type, f"result on {actual.device}"
    assert actual.shape == reference.shape, f"shape {actual.shape} against {reference.shape}"
    if loose:
        return
    if card:
        return compare_card(actual.cpu(), reference)
    relative, absolute = tolerances
    own_relative, own_absolute = default_tolerances(reference.dtype)
    torch.testing.assert_close(
        actual.cpu(),
        reference,
        rtol=max(relative, own_relative),
        atol=max(absolute, own_absolute),
        equal_nan=True,
        check_stride=False,
    )


def compare_card(actual: torch.Tensor, reference: torch.Tensor) -> None:
    if not actual.is_floating_point() or not reference.is_floating_point():
        bounds = {"rtol": CARD_TOLERANCE, "atol": CARD_TOLERANCE}
        return torch.testing.assert_close(actual, reference, check_dtype=False, **bounds)
    actual, reference = actual.double(), reference.double()
    # One special stands for NaN and both infinities, and float16 ends at 65504.
    special = ~reference.isfinite() | (reference.abs() > 65504)
    actual = actual.masked_fill(special & ~actual.isfinite(), 0)
    reference = reference.masked_fill(special & (actual == 0), 0)
    torch.testing.assert_close(actual, reference, rtol=CARD_TOLERANCE, atol=CARD_TOLERANCE)
