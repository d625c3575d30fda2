"""Random numbers of the device: one generator (Philox: a seed and an offset) for each.

None of this starts the runtime: a generator is two numbers on the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from ._devices import Device, existing_index
from ._runtime import runtime
from .constants import DEVICE_NAME

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


class DefaultGenerators(Sequence[torch.Generator]):
    """The generators that are used where none is given: one for each device."""

    def __len__(self) -> int:
        return runtime.device_count()

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(self)[index]
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"there is no device {index}: this process has {count}")
        return torch.ops.spyre._default_generator(index % count)

    def __iter__(self) -> Iterator[torch.Generator]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return repr(tuple(self))


default_generators = DefaultGenerators()


def _generator(device: Device = DEVICE_NAME) -> torch.Generator:
    return default_generators[existing_index(device)]


def manual_seed(seed: int) -> None:
    """Seeds the current device."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds all devices. ``torch.manual_seed`` calls this."""
    seed = int(seed)
    if runtime._is_in_bad_fork() or not runtime.is_available():
        return
    for generator in default_generators:
        generator.manual_seed(seed)


def seed() -> None:
    """Gives the current device a seed of chance."""
    _generator().seed()


def seed_all() -> None:
    """Gives all devices the same seed of chance."""
    if runtime._is_in_bad_fork() or not runtime.is_available():
        return
    first, *others = default_generators
    chosen = first.seed()
    for generator in others:
        generator.manual_seed(chosen)


def initial_seed(device: Device = DEVICE_NAME) -> int:
    """The seed of ``device``."""
    return _generator(device).initial_seed()


def get_rng_state(device: Device = DEVICE_NAME) -> torch.Tensor:
    """The state of ``device``'s generator, as bytes on the host."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: torch.Tensor, device: Device = DEVICE_NAME) -> None:
    """Sets the state of ``device``'s generator to one that :func:`get_rng_state` returned."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Gives each device the state in its place."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _default_generator(device: int = -1) -> torch.Generator:
    return _generator(None if device < 0 else device)


def _get_generator(device: torch.device) -> torch.Generator:
    return _generator(device)


def _get_rng_state_offset(device: Device = DEVICE_NAME) -> int:
    return _generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: Device = DEVICE_NAME) -> None:
    _generator(device).set_offset(offset)
