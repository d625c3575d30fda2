"""Packages with a function that names the device to use when a program says nothing."""

from __future__ import annotations

import functools
from types import ModuleType

from ..constants import DEVICE_NAME
from .packages import is_default_device, replace


def change_sentence_transformers(module: ModuleType) -> None:
    """``SentenceTransformer(...)``."""
    _change(module, "get_device_name")


def change_peft(module: ModuleType) -> None:
    """``PeftModel.from_pretrained(...)``."""
    _change(module, "infer_device")


def _change(module: ModuleType, name: str) -> None:
    known = getattr(module, name)

    @functools.wraps(known)
    def device_name() -> str:
        device = known()
        return DEVICE_NAME if device == "cpu" and is_default_device() else device

    replace(module, name, device_name)
