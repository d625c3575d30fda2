"""Reports of operations for a real card, and their results under ``SPYRE_PROFILE=card``."""

from __future__ import annotations

import json

import pytest

# An operation on x and y, and the dtypes that it is tried with.
FLOATS = ["float16", "bfloat16", "float32", "float64"]
CALLS = {
    "torch.silu": FLOATS, "torch.erf": FLOATS, "torch.exp": FLOATS, "torch.log": FLOATS, "torch.tanh": FLOATS,
    "torch.sin": FLOATS, "torch.lgamma": FLOATS, "torch.ceil": FLOATS, "torch.sign": FLOATS, "torch.rsqrt": FLOATS,
    "torch.nn.functional.gelu": FLOATS, "torch.nn.functional.softplus": FLOATS, "torch.nn.functional.mish": FLOATS,
    "torch.isinf": FLOATS, "torch.signbit": FLOATS, "torch.logical_not": FLOATS,
    "lambda x, y: torch.nn.functional.gelu(x, approximate='tanh')": FLOATS,
    "lambda x, y: x @ y": FLOATS, "lambda x, y: torch.softmax(x, 1)": FLOATS, "lambda x, y: x.prod(1)": FLOATS,
    "lambda x, y: x.cumsum(1)": FLOATS, "lambda x, y: x.sort(1)[0]": FLOATS, "lambda x, y: x.argmax(1)": FLOATS,
    "lambda x, y: x + y": [*FLOATS, "int8", "int32", "int64", "complex64"],
    "lambda x, y: x * y": [*FLOATS, "int32", "int64"], "lambda x, y: x // y": [*FLOATS, "int64"],
    "lambda x, y: x > y": [*FLOATS, "int64"], "lambda x, y: x ** 3": FLOATS, "torch.atan2": FLOATS,
    "lambda x, y: x | y": ["int32", "int64", "bool"], "lambda x, y: torch.rand_like(x)": FLOATS,
    "lambda x, y: x[:, torch.tensor([1, 3], device='spyre')]": [*FLOATS, "int64"],
}  # fmt: skip

CHILD = """
    import json, sys, warnings
    import torch
    from torch_spyre import _C

    warnings.simplefilter("ignore")
    torch.silu = torch.nn.functional.silu
    outcomes = {}
    for text, dtypes in json.load(sys.stdin).items():
        call = eval(text)
        for name in dtypes:
            before = _C.card_reports()
            try:
                x, y = ((torch.arange(64).reshape(8, 8) % 7 + 1).to(getattr(torch, name)).to("spyre") for _ in range(2))
                call(x, y) if text.startswith("lambda") or text == "torch.atan2" else call(x)
                torch.spyre.synchronize()
                raised = None
            except RuntimeError as error:
                raised = str(error).splitlines()[0]
            notes = [note for report in _C.card_reports() if report not in before for note in report[1]]
            outcomes[f"{text} of {name}"] = {"raised": raised, "notes": notes}
    print(json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def outcomes():
    """Reports and exceptions by operation, under the profile ``open`` and under ``card``."""
    import os
    import subprocess
    import sys
    import textwrap

    def run(profile):
        variables = {**os.environ, "SPYRE_PROFILE": profile, "SPYRE_FALLBACK": "error"}
        made = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(CHILD)], input=json.dumps(CALLS), env=variables,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        return json.loads(made.stdout)

    return run("open"), run("card")


OPERATIONS = [f"{text} of {name}" for text, dtypes in CALLS.items() for name in dtypes]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_refused_is_refused_and_all_else_is_computed(operation, outcomes):
    reported, eager = (outcome[operation] for outcome in outcomes)
    assert reported["raised"] is None, "open takes all of it"
    refused = [note for note in reported["notes"] if note.startswith("refused")]
    if operation.endswith((" of float64", " of complex64")):
        assert "does not support dtype" in eager["raised"]
    else:
        assert (refused, eager["raised"]) == ([], None)
    words = {note.partition(":")[0] for note in reported["notes"]}
    assert words <= {"refused", "decomposed", "host", "narrowed"}


def test_operations_that_the_card_has_are_not_mentioned(outcomes):
    reported, _ = outcomes
    for text in ("torch.silu", "torch.nn.functional.gelu", "torch.nn.functional.softplus", "torch.exp"):
        assert reported[f"{text} of float16"]["notes"] == [], text
    assert reported["torch.exp of float64"]["notes"][0] == "refused: `a` is float64, for which the card has no form"
    assert reported["torch.erf of float16"]["notes"] == ["host: `erf` is none of the card's operations"]
    assert reported["torch.silu of float32"]["notes"] == ["decomposed: `silu` becomes sigmoid and mul"]
