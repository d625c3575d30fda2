"""Compiled models beside eager ones: `python -m compiled.models [--dtype bfloat16] [--family llama] [--profile card]`.

Each model is compiled as one graph. Its scores and its gradients are judged by :mod:`compiled.judge`, its tokens are the
eager model's, and sequences of 2 to 128 tokens share one compilation. Numbers of float32 are near to the eager ones, too,
where the card has float32. An operator that would run on the CPU is an error. Numbers in the table are shares of what a
result may be off by: right up to 1.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.testing
from models import FAMILIES, IMAGE_MODELS, Exactly, Family, ImageModel, gradients, scores, widened

from .judge import Limit, check, check_near

__all__ = ["CHECKS", "MODELS", "backward", "forward", "lengths", "tokens"]

MODELS: dict[str, Family | ImageModel] = {**FAMILIES, **IMAGE_MODELS}
DTYPES = ("float32", "bfloat16", "float16")
LENGTHS = (2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128)
TOKENS = 16
SCORES = Limit(rtol=1e-3, atol=1e-4)
GRADIENTS = Limit(rtol=1e-3, atol=1e-3)
"""Limits of float32, beside eager results; buffers that a model writes have that of scores."""


def forward(name: str, dtype: torch.dtype) -> str:
    """Scores without gradients, and buffers that a model in training writes."""
    with torch.no_grad():
        return _judged(name, dtype, lambda own, model, call: (scores(model, call, _place(own)), {}))


def backward(name: str, dtype: torch.dtype) -> str:
    """Scores, and gradients of all parameters."""

    def run(own: torch.nn.Module, model: Callable[..., Any], call: dict[str, torch.Tensor]) -> Any:
        logits = scores(model, call, _place(own))
        return logits.detach(), gradients(own, logits)

    return _judged(name, dtype, run)


def _judged(name: str, dtype: torch.dtype, run: Callable[..., Any]) -> str:
    """The greatest share of what a result, or a buffer, may be off by."""
    made, call = MODELS[name].make(dtype), MODELS[name].call(dtype)
    eager, compiled = (copy.deepcopy(made).to("spyre") for _ in range(2))
    given = run(compiled, torch.compile(compiled, fullgraph=True), call)
    beside = run(eager, eager, call)
    exact, call = widened(made, call)
    with Exactly():
        right = run(exact, exact, call)
    if _has_limits(dtype):
        check_near((given[0], dict(compiled.named_buffers())), (beside[0], dict(eager.named_buffers())), SCORES)
        check_near(given[1], beside[1], GRADIENTS)
    results = ((result, dict(own.named_buffers())) for result, own in ((given, compiled), (beside, eager), (right, exact)))
    return f"{check(*results):.2f}"


def _has_limits(dtype: torch.dtype) -> bool:
    return dtype == torch.float32 and os.environ.get("SPYRE_PROFILE") != "card"


def _place(own: torch.nn.Module) -> str:
    return next(own.parameters()).device.type


def tokens(name: str, dtype: torch.dtype) -> str:
    """Tokens of a decoder with a static cache, prompt and decoding both compiled."""
    family = MODELS[name]
    if not getattr(family, "generates", False):
        return "-"
    own = family.make(dtype).to("spyre")
    call = {key: value.to("spyre") for key, value in family.call(dtype).items() if key != "decoder_input_ids"}
    settings = {**family.generation, "do_sample": False, "max_new_tokens": TOKENS, "min_new_tokens": TOKENS}
    if family.has_static_cache:
        settings["cache_implementation"] = "static"
    expected = own.generate(**call, **settings)
    own.forward = torch.compile(own.forward, fullgraph=True)
    given = own.generate(**call, **settings)
    assert torch.equal(given.cpu(), expected.cpu()), f"{given.tolist()}, and {expected.tolist()} in eager mode"
    return str(TOKENS)


def lengths(name: str, dtype: torch.dtype) -> str:
    """Sequences of all lengths, by one compilation."""
    family = MODELS[name]
    if not isinstance(family, Family) or "pixel_values" in family.inputs and len(family.inputs) == 1:
        return "-"
    family = family.longer()
    made = family.make(dtype)
    own = copy.deepcopy(made).to("spyre")
    exact, _ = widened(made, {})
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(own, backend=counter, fullgraph=True)
    with torch.no_grad():
        for length in LENGTHS:
            call = family.call(dtype, length, 130 - length)
            there = {key: _of_any_length(key, value.to("spyre")) for key, value in call.items()}
            given = scores(compiled, there, "spyre")
            with Exactly():
                right = scores(exact, widened(made, call)[1])
            beside = scores(own, there, "spyre")
            if _has_limits(dtype):
                check_near(given, beside, SCORES)
            check(given, beside, right)
    assert counter.frame_count == 1, f"{counter.frame_count} compilations of {len(LENGTHS)} lengths"
    return str(counter.frame_count)


def _of_any_length(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if name not in ("pixel_values", "input_features"):
        torch._dynamo.mark_dynamic(tensor, 1, min=2, max=128)
    return tensor


CHECKS: dict[str, Callable[[str, torch.dtype], str]] = {
    "forward": forward,
    "backward": backward,
    "tokens": tokens,
    "lengths": lengths,
}


def outcome(check_of: Callable[[str, torch.dtype], str], name: str, dtype: torch.dtype) -> tuple[str, str]:
    """A cell of the table, and the error behind it if there is one."""
    torch._dynamo.reset()
    try:
        return check_of(name, dtype), ""
    except AssertionError as error:
        return "WRONG", str(error).strip()[:600]
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
        return type(error).__name__[:12], "".join(traceback.format_exception(error))[-1500:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="all of them, if none is given")
    parser.add_argument("--family", action="append", choices=MODELS, help="all of them, if none is given")
    parser.add_argument("--check", action="append", choices=CHECKS, help="all of them, if none is given")
    parser.add_argument("--profile", choices=("open", "card"), default=os.environ.get("SPYRE_PROFILE", "open"))
    options = parser.parse_args()
    if options.profile != os.environ.get("SPYRE_PROFILE", "open"):  # the device may be open already
        os.environ["SPYRE_PROFILE"] = options.profile
        os.execv(sys.executable, [sys.executable, "-m", "compiled.models", *sys.argv[1:]])
    from torch_spyre.ops.fallbacks import set_fallback_mode

    set_fallback_mode("error")
    warnings.simplefilter("ignore")
    return _table(options.family or MODELS, options.dtype or DTYPES, options.check or CHECKS, options.profile)


def _table(names: Any, dtypes: Any, checks: Any, profile: str) -> int:
    wrong = 0
    print(f"{profile:<10} {'dtype':<9}" + "".join(f"{title:>13}" for title in checks) + f"{'seconds':>9}", flush=True)
    for name in names:
        for dtype in dtypes:
            begin = time.monotonic()
            cells = [outcome(CHECKS[title], name, getattr(torch, dtype)) for title in checks]
            wrong += sum(bool(error) for _, error in cells)
            row = "".join(f"{cell:>13}" for cell, _ in cells)
            print(f"{name:<10} {dtype:<9}{row}{time.monotonic() - begin:>9.1f}", flush=True)
            for title, (_, error) in zip(checks, cells):
                print(*([f"    {title}: {error}"] if error else []), sep="\n", end="\n" if error else "", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
