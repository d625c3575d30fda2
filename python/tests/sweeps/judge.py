"""Makes the cases of one operator on both sides, and says what differs."""

from __future__ import annotations

import cmath
import itertools
import math
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from opinfo.judge import Verdict, is_random, samples, tolerance

from .cases import KINDS, Case
from .known_differences import reason
from .places import with_first_places

DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16, torch.complex64)

LOOSER = {
    torch.float16: 2e-2, torch.float32: 2e-3, torch.float64: 1e-5, torch.complex64: 2e-3, torch.complex128: 1e-5,
}  # fmt: skip
"""Numbers themselves are compared by `opinfo`: here a result is to be of the right kind, and in its place."""


@dataclass
class Swept(Verdict):
    """Results of the cases of one kind."""

    known: Counter = field(default_factory=Counter)
    """Differences that the table of known ones has, by their reason."""


def dtypes(op: Any) -> list[torch.dtype]:
    """The dtypes that an operator is swept in."""
    supported = op.supported_dtypes("cpu")
    return [dtype for dtype in DTYPES if dtype in supported]


def judge(op: Any, dtype: torch.dtype, kind: str, device: torch.device, most: int) -> Swept:
    """Makes the cases of one kind, of at most so many samples."""
    verdict = Swept()
    torch.manual_seed(42)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in itertools.islice(samples(op, dtype), most):
            arguments = (sample.input, sample.args, sample.kwargs)
            loose = is_random(op.name, sample.kwargs)
            for case in KINDS[kind](with_first_places(op), arguments, dtype):
                one(op, case, kind, dtype, device, verdict, loose)
    return verdict


def one(op, case: Case, kind: str, dtype: torch.dtype, device, verdict: Swept, loose: bool) -> None:
    bounds = tuple(max(bound, LOOSER.get(dtype, 0)) for bound in tolerance(op, dtype))
    there, here = seen(case, device), seen(case, torch.device("cpu"))
    why = difference(there, here, case.has_strides, bounds, loose)
    known = None if why is None else reason(op.name, kind, case.label, dtype, why)
    if why is None:
        verdict.passed += 1
        verdict.by_shape_only += loose
    elif known is not None:
        verdict.known[known] += 1
    else:
        verdict.failed += 1
        verdict.messages[f"{kind}, {case.label}: {why[:300]}"] += 1


def seen(case: Case, device: torch.device) -> Any:
    """Result of a case, or the error that it raises."""
    try:
        made = case.run(device)
        if device.type != "cpu":
            torch.accelerator.synchronize()
        return made
    except Exception as error:  # noqa: BLE001 (a refusal is an outcome)
        return error


def difference(there: Any, here: Any, has_strides: bool, bounds: tuple, loose: bool) -> str | None:
    """Difference between the two sides; None if they agree."""
    if isinstance(here, Exception) or isinstance(there, Exception):
        return refusals(there, here)
    left, shape = tree_flatten(there)
    right, wanted = tree_flatten(here)
    if shape != wanted:
        return f"structure {shape} against {wanted}"
    for actual, reference in zip(left, right):
        why = leaves(actual, reference, has_strides, bounds, loose)
        if why is not None:
            return why
    return None


def refusals(there: Any, here: Any) -> str | None:
    if isinstance(here, Exception) and isinstance(there, Exception):
        is_same = type(here) is type(there) or isinstance(there, type(here))
        return None if is_same else f"raises {said(there)} against {said(here)}"
    return f"is accepted against {said(here)}" if isinstance(here, Exception) else f"raises {said(there)}"


def said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def leaves(actual: Any, reference: Any, has_strides: bool, bounds: tuple, loose: bool) -> str | None:
    if not isinstance(reference, Tensor):
        return None if loose or is_same_number(actual, reference, bounds) else f"{actual!r} against {reference!r}"
    if actual.shape != reference.shape or actual.dtype != reference.dtype:
        return f"{actual.dtype} {tuple(actual.shape)} against {reference.dtype} {tuple(reference.shape)}"
    # Strides of nothing say nothing.
    is_laid = has_strides and reference.layout == torch.strided and reference.numel() > 0
    if is_laid and actual.stride() != reference.stride():
        return f"strides {actual.stride()} against {reference.stride()}"
    return None if loose else values(actual.cpu(), reference, bounds)


def is_same_number(actual: Any, reference: Any, bounds: tuple) -> bool:
    if type(actual) is type(reference) and isinstance(reference, (float, complex)):
        return values(torch.tensor(actual), torch.tensor(reference), bounds) is None
    return actual == reference


def values(actual: Tensor, reference: Tensor, bounds: tuple) -> str | None:
    relative, absolute = (max(bound, LOOSER.get(reference.dtype, 0)) for bound in bounds)
    try:
        torch.testing.assert_close(
            actual, reference, rtol=relative, atol=absolute, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return " | ".join([sorts(actual, reference, relative, absolute), *lines[1:4]])
    return None


def sorts(actual: Tensor, reference: Tensor, relative: float, absolute: float) -> str:
    """Kinds of elements that differ, such as `inf for nan`."""
    if actual.layout != torch.strided:
        return "values"
    is_other = ~torch.isclose(actual, reference, relative, absolute, equal_nan=True)
    pairs = zip(actual[is_other].tolist(), reference[is_other].tolist())
    return ", ".join(sorted({f"{sort(one)} for {sort(other)}" for one, other in pairs}))


def sort(number: complex) -> str:
    if isinstance(number, complex):
        return "nan" if cmath.isnan(number) else "inf" if cmath.isinf(number) else "a number"
    return str(number) if math.isnan(number) or math.isinf(number) else "a number"
