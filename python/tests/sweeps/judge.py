"""Makes the cases of one operator on both sides, and says what differs."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from opinfo.judge import Verdict, is_random, samples, tolerance

from .cases import KINDS, Case
from .known import is_known

DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16, torch.complex64)

LOOSER = {
    torch.float16: 2e-2, torch.float32: 2e-3, torch.float64: 1e-5, torch.complex64: 2e-3, torch.complex128: 1e-5,
}  # fmt: skip
"""Numbers themselves are compared by `opinfo`: here a result is to be of the right kind, and in its place."""


def dtypes(op: Any) -> list[torch.dtype]:
    """The dtypes that an operator is swept in."""
    supported = op.supported_dtypes("cpu")
    return [dtype for dtype in DTYPES if dtype in supported]


def judge(op: Any, dtype: torch.dtype, kind: str, device: torch.device, most: int) -> Verdict:
    """Makes the cases of one kind, of at most so many samples."""
    verdict = Verdict()
    torch.manual_seed(42)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in itertools.islice(samples(op, dtype), most):
            arguments = (sample.input, sample.args, sample.kwargs)
            loose = is_random(op.name, sample.kwargs)
            for case in KINDS[kind](op, arguments, dtype):
                one(op, case, kind, dtype, device, verdict, loose)
    return verdict


def one(op, case: Case, kind: str, dtype: torch.dtype, device, verdict: Verdict, loose: bool) -> None:
    bounds = tuple(max(bound, LOOSER.get(dtype, 0)) for bound in tolerance(op, dtype))
    there, here = seen(case, device), seen(case, torch.device("cpu"))
    why = difference(there, here, case.has_strides, bounds, loose)
    if why is None or is_known(op.name, kind, case.label, dtype, why):
        verdict.passed += 1
        verdict.by_shape_only += loose
    else:
        verdict.failed += 1
        verdict.messages[f"{kind}, {case.label}: {why[:300]}"] += 1


def seen(case: Case, device: torch.device) -> Any:
    """What a case gives back, or the error that it raises."""
    try:
        made = case.run(device)
        if device.type != "cpu":
            torch.accelerator.synchronize()
        return made
    except Exception as error:  # noqa: BLE001 (a refusal is an outcome)
        return error


def difference(there: Any, here: Any, has_strides: bool, bounds: tuple, loose: bool) -> str | None:
    """What one side has that the other has not; nothing, if they agree."""
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
        is_number = isinstance(reference, (float, complex))
        return None if loose or is_number or actual == reference else f"{actual!r} against {reference!r}"
    if actual.shape != reference.shape or actual.dtype != reference.dtype:
        return f"{actual.dtype} {tuple(actual.shape)} against {reference.dtype} {tuple(reference.shape)}"
    # Strides of nothing say nothing.
    is_laid = has_strides and reference.layout == torch.strided and reference.numel() > 0
    if is_laid and actual.stride() != reference.stride():
        return f"strides {actual.stride()} against {reference.stride()}"
    return None if loose else values(actual.cpu(), reference, bounds)


def values(actual: Tensor, reference: Tensor, bounds: tuple) -> str | None:
    relative, absolute = (max(bound, LOOSER.get(reference.dtype, 0)) for bound in bounds)
    try:
        torch.testing.assert_close(
            actual, reference, rtol=relative, atol=absolute, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return " | ".join(lines[1:4])
    return None
