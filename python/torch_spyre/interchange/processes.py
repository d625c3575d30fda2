"""``torch.multiprocessing``: tensors of the device reach another process as copies, through a mapping of the host.

The card's memory is the process's own. What is sent is copied to shared memory of the host, whose file descriptor
travels, and from there to the receiver's card: tensors that share a storage still share one there. What either process
writes after the copy, the other does not see. A pipe copies when it sends; a queue has a thread for that, which copies
some time after ``put``.
"""

from __future__ import annotations

import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import torch
from torch.multiprocessing import reductions

from .. import _C
from ..constants import DEVICE_NAME

_FEEDER = "QueueFeederThread"
"""The name that Python gives to the thread of a queue: what is raised there is printed, and the receiver waits on."""


def install() -> None:
    """Has storages sent by these functions."""
    ForkingPickler.register(torch.UntypedStorage, _reduce)


def _reduce(storage: torch.UntypedStorage) -> Any:
    if storage.device.type != DEVICE_NAME:
        return reductions.reduce_storage(storage)
    try:
        # The thread of a queue knows nothing of the streams that write the storage.
        _C._drain(storage.device.index)
        return _rebuild, (storage.cpu(), str(storage.device))
    except Exception as error:
        if threading.current_thread().name != _FEEDER:
            raise
        return _refuse, (f"the sender could not send a tensor of {storage.device}: {error}",)


def _rebuild(host: torch.UntypedStorage, device: str) -> torch.UntypedStorage:
    return host.to(device=torch.device(device))


def _refuse(message: str) -> NoReturn:
    raise RuntimeError(message)
