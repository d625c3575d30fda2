"""The generators of spyre in checkpoints of packages that save those of the devices they know."""

from __future__ import annotations

from pathlib import Path

import torch

from ..constants import DEVICE_NAME


def save(folder: str | Path, process: int = 0) -> None:
    """Writes the generators' states beside the package's own files."""
    torch.save(torch.spyre.get_rng_state_all(), _file(folder, process))


def load(folder: str | Path, process: int = 0) -> None:
    """Sets the generators as the checkpoint has them. One that was made elsewhere leaves them as they are."""
    file = _file(folder, process)
    if file.is_file():
        states = torch.load(file, weights_only=True)
        for device, state in enumerate(states[: torch.spyre.device_count()]):
            torch.spyre.set_rng_state(state, device)


def _file(folder: str | Path, process: int) -> Path:
    return Path(folder) / f"{DEVICE_NAME}_rng_state_{process}.pth"
