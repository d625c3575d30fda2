"""``torch.multiprocessing``: tensors of the device reach another process as copies, through a mapping of the host.

The card's memory is the process's own. What is sent is copied to shared memory of the host, whose file descriptor
travels, and from there to the receiver's card: tensors that share a storage still share one there, and what either
process writes later, the other does not see.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from ..constants import DEVICE_NAME


def install() -> None:
    """Has storages sent by these functions."""
    ForkingPickler.register(torch.UntypedStorage, _reduce)


def _reduce(storage: torch.UntypedStorage) -> Any:
    if storage.device.type != DEVICE_NAME:
        return reductions.reduce_storage(storage)
    return _rebuild, (storage.cpu(), str(storage.device))


def _rebuild(host: torch.UntypedStorage, device: str) -> torch.UntypedStorage:
    return host.to(device=torch.device(device))
