"""``torch.spyre.distributed``: the backend ``spyreccl`` of ``torch.distributed``.

Programs use ``torch.distributed`` itself; here is what only this backend knows.
"""

from __future__ import annotations

import json
import sys

__all__ = ["dump"]


def dump() -> list[dict]:
    """The last collectives of each group of this process, with the keys of PyTorch's flight recorder.

    >>> torch.spyre.distributed.dump()[0]["entries"][-1]["profiling_name"]  # doctest: +SKIP
    'spyreccl:all_reduce'
    """
    extension = sys.modules.get("torch_spyre._dist")
    return [json.loads(record) for record in extension.SpyreCCL.histories()] if extension else []
