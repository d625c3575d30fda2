"""Calls one case on both sides, with fallbacks forbidden, and says what came of it."""

from __future__ import annotations

import contextlib
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_flatten, tree_map
from torch_spyre import _C

from .arrangements import ARRANGEMENTS, repeated
from .case import EIGHT_BITS, Case, Make
from .rounding import HOST_END, Rounding, arrived, as_card, as_dtype, is_wide, returned

WIDE = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    **dict.fromkeys(EIGHT_BITS, torch.float64),
    **dict.fromkeys((torch.complex32, torch.complex64), torch.complex128),
}
CARD_EPSILON = 2.0**-9
CARD_LEAST = 2.0**-24
"""The card's 16-bit float, as the host's shows it: how far numbers lie apart, relative to them; the least."""

REFUSALS = ("does not support dtype", "only supports contiguous memory format", "bits are not the host's")
"""The words with which the card refuses dtypes, memory formats and bit views that it does not have."""


class OnTheCpu(Exception):
    """The device asked the CPU for help."""


@dataclass
class Verdict:
    """Results of the calls of one operator in one dtype."""

    passed: int = 0
    failed: int = 0
    on_the_cpu: int = 0
    refused: int = 0
    """Calls that the card refuses for what it does not have."""
    unmeasured: int = 0
    """Calls that the CPU itself refuses."""
    messages: Counter = field(default_factory=Counter)
    ulps: float | None = None
    """The largest error, in units of the last place, where it is measured."""

    def as_json(self) -> dict:
        return {**self.__dict__, "messages": dict(self.messages)}

    def tell(self, what: str, error: BaseException) -> None:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        self.messages[f"{what}: {type(error).__name__}: {' | '.join(lines[:4])[:300]}"] += 1


def judged(cases: list[Case], dtype: torch.dtype, device: torch.device, card: bool) -> Verdict:
    """All cases of one name, at all of their sizes, through all arrangements."""
    verdict = Verdict()
    for number, case in enumerate(cases):
        # Of nothing, the CPU takes dtypes that it refuses otherwise: that comes last, if anything came before.
        sizes = sorted(case.sizes, key=lambda size: size == 0)
        for size in sizes:
            if not (size or is_measured(verdict)) or not is_there(case, number, dtype, size):
                verdict.unmeasured += 1
                continue
            operands = case.operands(Make(dtype, seed_of(case.name, number, size)), size)
            for name in ARRANGEMENTS:
                judge_one(case, operands, name, f"size {size}, {name}", device, card, verdict)
    return verdict


def is_measured(verdict: Verdict) -> bool:
    return verdict.passed + verdict.failed + verdict.on_the_cpu > 0


def is_there(case: Case, number: int, dtype: torch.dtype, size: int) -> bool:
    """Returns true if the CPU takes the call: the device need not do what the CPU refuses."""
    try:
        called(case, case.operands(Make(dtype, seed_of(case.name, number, size)), size))
        return True
    except Exception:  # noqa: BLE001 (whatever it says)
        return False


def seed_of(name: str, number: int, size: int) -> int:
    return zlib.crc32(f"{name} {number} {size}".encode())


def judge_one(case: Case, operands, name: str, what: str, device, card: bool, verdict: Verdict) -> None:
    if name == "expanded" and not case.expands:
        return
    values = tree_map(repeated, operands) if name == "expanded" else operands
    try:
        expected = called(case, copies(values))
    except Exception:  # noqa: BLE001 (what the CPU refuses is not the device's to do)
        verdict.unmeasured += 1
        return
    try:
        there = [ARRANGEMENTS[name](value, device) for value in values]
        kept = [held(value, there_too) for value, there_too in zip(values, there)] if card else values
        with on_the_device_only(case.reads):
            given = called(case, there)
        compare(case, given, expected, kept, device, card)
        verdict.passed += 1
    except (NotImplementedError, OnTheCpu) as error:
        verdict.on_the_cpu += 1
        verdict.tell(what, error)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        if card and any(words in str(error) for words in REFUSALS):
            verdict.refused += 1
            return
        verdict.failed += 1
        verdict.tell(what, error)


def copies(values) -> list[torch.Tensor]:
    return [value.clone() for value in values]


def called(case: Case, operands):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.function(*operands)


@contextlib.contextmanager
def on_the_device_only(reads: bool):
    """Fallbacks are refused, and the counters of copies say that nothing went to the host."""
    before, mode = _C.traffic(), _C.fallback_mode()
    _C.set_fallback_mode("error")
    try:
        yield
    finally:
        _C.set_fallback_mode(mode)
    count = _C.traffic()["copies_to_host"] - before["copies_to_host"]
    if count and not reads:
        raise OnTheCpu(f"{count} copies to the host")


def compare(case: Case, given, expected, values, device, card: bool) -> None:
    """Compares with the CPU's results. A result that differs may agree with float64 instead; that of an operator made
    of several may agree with float64 that is rounded to the dtype after each of them."""
    left, right = tree_flatten(given)[0], tree_flatten(expected)[0]
    assert len(left) == len(right), f"{len(left)} results in place of {len(right)}"
    for actual, reference in zip(left, right):
        assert actual.device.type == device.type, f"a result is on {actual.device}"
        assert actual.shape == reference.shape, f"shape {list(actual.shape)} in place of {list(reference.shape)}"
        assert actual.dtype == reference.dtype, f"{actual.dtype} in place of {reference.dtype}"
    if case.random:
        return
    there = [actual.cpu() for actual in left]
    dtype = next((value.dtype for value in values if value.is_floating_point() or value.is_complex()), None)
    round_one = as_card if card else as_dtype(dtype) if dtype in (torch.float16, torch.bfloat16) else None
    references = [lambda: None if card else right, lambda: exact(case, values)]
    if round_one is not None:
        references.append(lambda: exact(case, values, Rounding(round_one)))
    first_error = None
    for reference in references:
        try:
            expected = reference()
            if expected is not None:
                return compare_all(case, there, expected, dtype, values, card)
        except AssertionError as error:
            first_error = first_error or error
    if first_error is None:
        return compare_all(case, there, right, dtype, values, card)
    raise first_error


def compare_all(case: Case, given, expected, dtype, values, card: bool) -> None:
    if card:
        return compare_card(case, given, expected, values)
    for actual, reference in zip(given, expected):
        close(actual, reference.to(actual.dtype), case, dtype, values)


def exact(case: Case, values, mode=None) -> list[torch.Tensor] | None:
    """The results of the same in float64, if any operand has fractions; with a mode, as that has it."""
    if not any(value.dtype in WIDE or is_wide(value) for value in values):
        return None
    try:
        wide = [value.to(WIDE.get(value.dtype, value.dtype), copy=True) for value in values]
        with mode or contextlib.nullcontext():
            return tree_flatten(called(case, wide))[0]
    except Exception:  # noqa: BLE001 (not everything is there in float64: a dtype may be part of the call)
        return None


def close(actual: torch.Tensor, reference: torch.Tensor, case: Case, dtype, values) -> None:
    relative, absolute = default_tolerances(reference.dtype)
    if dtype is not None and (reference.is_floating_point() or reference.is_complex()):
        own = default_tolerances(dtype)
        relative, absolute = max(relative, own[0]), max(absolute, own[1])
    if reference.dtype in EIGHT_BITS:
        # PyTorch has no tolerance for these: one unit of the last place.
        relative = torch.finfo(reference.dtype).eps
        actual, reference = actual.float(), reference.float()
    absolute = max(absolute, case.off)
    if case.grows and reference.numel() and (reference.is_floating_point() or reference.is_complex()):
        absolute = max(absolute, relative * largest([reference, *values]))
    torch.testing.assert_close(actual, reference, rtol=relative, atol=absolute, equal_nan=True, check_stride=False)


def largest(values: list[torch.Tensor]) -> float:
    """Largest finite magnitude: the order of a long sum is free, so its error is relative to its terms."""
    found = [value.to(torch.complex128).abs() for value in values if value.numel()]
    return max((value[value.isfinite()].max().item() for value in found if value.isfinite().any()), default=0.0)


def held(value: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Values that the card holds of an operand; checks that the host reads back what its format can show of them."""
    numbers = arrived(value)
    shown = returned(numbers) if is_wide(numbers) else numbers
    torch.testing.assert_close(seen(there.cpu()) if is_wide(numbers) else there.cpu(), shown, rtol=0, atol=0)
    return numbers


def seen(value: torch.Tensor) -> torch.Tensor:
    """A float16 that came back, next to `returned`."""
    return value.double().clamp(-HOST_END, HOST_END)


def compare_card(case: Case, given, expected, values) -> None:
    """Compares results in the card's float with float64 on the values that the card stored."""
    for actual, reference in zip(given, expected):
        if not actual.is_floating_point():
            torch.testing.assert_close(actual, reference, check_dtype=False, equal_nan=True)
            continue
        if actual.dtype == torch.float16:
            # No NaN comes back: the special is an infinity.
            actual, reference = seen(actual), returned(reference.double())
        absolute = CARD_LEAST
        if case.grows:
            absolute = max(absolute, CARD_EPSILON * largest([reference, *values]))
        actual, reference = actual.double(), reference.double()
        torch.testing.assert_close(actual, reference, rtol=CARD_EPSILON, atol=absolute, equal_nan=True)
