"""Loggers of the compilation of graphs: `spyre.inductor` and its parts, on top of :mod:`.logging_config`.

    SPYRE_LOGS="inductor.codegen:DEBUG" python model.py  # the text of each kernel
"""

from __future__ import annotations

import logging

from . import logging_config
from .logging_config import LogLevel, get_logger

__all__ = [
    "codegen_log", "get_inductor_logger", "get_logger", "inductor_log", "is_inductor_logging_enabled", "lowering_log",
    "passes_log", "stickify_log", "update_log_level",
]  # fmt: skip

_COMPONENT = "spyre.inductor"


def get_inductor_logger(part: str = "") -> logging.Logger:
    """The logger of a part, such as ``"lowering"``; a name that is new is a part of its own. Without one, of all."""
    return get_logger(f"{_COMPONENT}.{part}" if part else _COMPONENT)


def update_log_level(level: LogLevel | int | str | None = None, part: str = "") -> None:
    """Sets the level of a part, or of all; without a level, reads the environment anew if it has changed."""
    if level is not None:
        logging_config.set_log_level(get_inductor_logger(part).name, level)
    elif _needs_reinit():
        logging_config.initialize(force=True)


def is_inductor_logging_enabled(level: LogLevel | int | str = LogLevel.INFO) -> bool:
    """Returns True if some part logs messages of a level."""
    names = [name for name in logging_config.list_components() if name.startswith(_COMPONENT)]
    return any(get_logger(name).isEnabledFor(LogLevel.parse(level)) for name in names)


def _needs_reinit() -> bool:
    """Returns True if the environment asks for other levels than when it was read."""
    return logging_config.is_outdated()


inductor_log = get_inductor_logger()
lowering_log = get_inductor_logger("lowering")
stickify_log = get_inductor_logger("stickify")
codegen_log = get_inductor_logger("codegen")
passes_log = get_inductor_logger("passes")
