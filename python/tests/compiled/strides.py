"""Compares the strides that eager results have with those that PyTorch's fake tensors promise.

A compiled graph asserts them, so an operator whose results lie otherwise cannot be a part of one:
`python -m compiled.strides [--share n/m]` (from python/tests) goes through PyTorch's samples of every operator.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["differences"]

_NOT_COMPARED = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})


def differences(op, dtype: torch.dtype = torch.float32, samples: int = 30) -> list[str]:
    """The samples of an operator whose results do not lie as promised."""
    found = []
    for number, sample in enumerate(op.sample_inputs("cpu", dtype)):
        if number >= samples:
            break
        moved = [_moved(value) for value in (sample.input, sample.args, sample.kwargs)]
        fake = _strides(lambda: _on_fakes(op, moved))
        real = _strides(lambda: op.op(moved[0], *moved[1], **moved[2]))
        if fake is None or real is None or len(fake) != len(real):
            continue
        for promised, given in zip(fake, real):
            if promised != given:
                found.append(f"{op.formatted_name} {dtype} sample {number}: promised {promised}, given {given}")
    return found


def _on_fakes(op, values):
    mode = FakeTensorMode(allow_non_fake_inputs=False)
    with mode:
        fakes = tree_map(lambda value: mode.from_tensor(value) if isinstance(value, torch.Tensor) else value, values)
        return op.op(fakes[0], *fakes[1], **fakes[2])


def _moved(value):
    move = lambda leaf: leaf.to("spyre") if isinstance(leaf, torch.Tensor) else leaf  # noqa: E731
    return tree_map(lambda leaf: torch.device("spyre") if leaf == torch.device("cpu") else move(leaf), value)


def _strides(call):
    """Size and stride of each result, of dims that have more than one element; none if the call is refused."""
    try:
        results = [leaf for leaf in tree_leaves(call()) if isinstance(leaf, torch.Tensor)]
        return [
            [(size, stride) for size, stride in zip(leaf.shape, leaf.stride()) if size > 1] if leaf.numel() else []
            for leaf in results
            if leaf.layout == torch.strided
        ]
    except Exception:  # noqa: BLE001 (what one side refuses is not compared)
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", default="1/1", help="n/m: each m-th operator, from the n-th")
    parser.add_argument("--only", default="", help="operators whose name holds this text")
    options = parser.parse_args()
    nth, of = map(int, options.share.split("/"))
    warnings.simplefilter("ignore")
    compared = [op for op in op_db[nth - 1 :: of] if options.only in op.name and op.name not in _NOT_COMPARED]
    found = [line for op in compared if torch.float32 in op.dtypes for line in differences(op)]
    print("\n".join(found))
    print(f"{len(compared)} operators, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
