"""Inputs that PyTorch's own tests say are errors: what the CPU refuses is refused with the same exception."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

OTHER_TYPES = {
    # Only the CPU's own kernel says RuntimeError; every other device says IndexError, as PyTorch's test has it.
    ("narrow_copy", 1): IndexError,
}
"""Operations and inputs whose exception is another one, and which."""

OPS = [op for op in op_db if op.error_inputs_func is not None]


def outcome(op, error_input) -> Exception | None:
    """Exception that a call raises. Faults of the device are raised when a result is read."""
    sample = error_input.sample_input
    try:
        results = op(sample.input, *sample.args, **sample.kwargs)
        for result in results if isinstance(results, (tuple, list)) else [results]:
            if isinstance(result, torch.Tensor) and result.layout == torch.strided:
                result.cpu()
    except Exception as error:  # noqa: BLE001
        return error
    return None


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.formatted_name)
def test_errors_are_those_of_the_cpu(op):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (list(op.error_inputs(device)) for device in ("spyre", "cpu"))
        for at, given in enumerate(ours):
            # Some inputs are for one kind of device only: then PyTorch says which exception they are.
            is_shared = len(ours) == len(theirs)
            expected = type(outcome(op, theirs[at])) if is_shared else given.error_type
            expected = OTHER_TYPES.get((op.formatted_name, at), expected)
            found = outcome(op, given)
            assert issubclass(type(found), expected), f"{op.formatted_name} {at}: {found!r}, not {expected.__name__}"
