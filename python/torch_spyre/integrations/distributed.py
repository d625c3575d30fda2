"""``torch.distributed``: the backend of this device, by its name. Nothing of it is loaded until a group is made."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ..constants import DEVICE_NAME, DISTRIBUTED_BACKEND_NAME


def change(module: ModuleType) -> None:
    """Registers the backend; tensors of the CPU are served by the Gloo that it has inside."""
    if not hasattr(module, "ProcessGroup"):  # a PyTorch that was built without it
        return
    devices = ["cpu", DEVICE_NAME]
    module.Backend.register_backend(DISTRIBUTED_BACKEND_NAME, _create, extended_api=True, devices=devices)
    _change_default(module)


def _create(options: Any, backend_options: Any) -> Any:
    from ..distributed import groups

    return groups.create(options, backend_options)


def _change_default(module: ModuleType) -> None:
    """A group's default backend, which DDP asks for: PyTorch takes it to be Gloo if no backend is named.

    A group of another backend alone has nothing of the card that the default group is bound to.
    """
    known = module._new_process_group_helper

    @functools.wraps(known)
    def new_process_group_helper(
        size: int, rank: int, ranks: Any, backend: Any, *others: Any, device_id: Any = None, **named: Any
    ) -> Any:
        if device_id is not None and device_id.type == DEVICE_NAME and not _serves(module, backend):
            device_id = None
        made = known(size, rank, ranks, backend, *others, device_id=device_id, **named)
        group = made[0]
        if isinstance(group, module.ProcessGroup) and _is_ours(group):
            group._set_default_backend(module.ProcessGroup.BackendType.CUSTOM)
        return made

    module._new_process_group_helper = new_process_group_helper


def _serves(module: ModuleType, backend: Any) -> bool:
    return DEVICE_NAME in module.BackendConfig(module.Backend(str(backend))).get_device_backend_map()


def _is_ours(group: Any) -> bool:
    devices = [device for device in group._device_types if device.type == DEVICE_NAME]
    return any(group._get_backend(device).name() == DISTRIBUTED_BACKEND_NAME for device in devices)
