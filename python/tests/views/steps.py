"""The steps of a chain: each looks at the host tensor, draws its numbers, and gives one `Step`.

A step is carried out twice, once per side, by the same code. What it draws follows from its seed and
from the host tensor alone, so that any sub-list of a chain is a chain: that is what lets it shrink.
"""

from .copy_steps import COPIES
from .draws import ALL, CARD, FLOATS, Draw, Side, Step, has_windows, host_values
from .view_steps import VIEWS
from .write_steps import WRITES

BY_NAME = {step.__name__: step for step in (*VIEWS, *COPIES, *WRITES)}
"""All steps; a chain names them."""

__all__ = [
    "ALL", "BY_NAME", "CARD", "COPIES", "FLOATS", "VIEWS", "WRITES", "Draw", "Side", "Step", "has_windows", "host_values",
]  # fmt: skip
