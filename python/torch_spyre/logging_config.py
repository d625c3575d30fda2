"""Logs of the package: components, levels, and the output. Needs neither torch nor the rest of the package.

A component is a logger of the standard library (``spyre.runtime``). Each logs nothing below WARNING unless
the environment or :func:`set_log_level` sets a lower level:

    SPYRE_LOGS="runtime:DEBUG,inductor.lowering:INFO" python train.py

``TORCH_LOGS`` is read too, in two forms. ``+torch_spyre`` sets all components to DEBUG and ``-torch_spyre`` to
ERROR. ``spyre.runtime:DEBUG`` is the same as in ``SPYRE_LOGS``; note that PyTorch reads this variable before it
loads any device, and refuses what it does not know.
"""

from __future__ import annotations

import enum
import logging
import os
import sys
import threading
from collections.abc import Mapping

__all__ = [
    "LogLevel",
    "disable",
    "enable",
    "get_config_for_cpp",
    "get_config_source",
    "get_effective_config",
    "get_log_file",
    "get_log_level",
    "get_logger",
    "get_output_config",
    "initialize",
    "is_outdated",
    "list_components",
    "set_log_file",
    "set_log_level",
]

ROOT = "spyre"

COMPONENTS = {
    "spyre.inductor": "compiling graphs",
    "spyre.inductor.lowering": "operations to kernels",
    "spyre.inductor.stickify": "layouts of tensors",
    "spyre.inductor.codegen": "the code of kernels",
    "spyre.inductor.passes": "passes over graphs",
    "spyre.runtime": "start, streams, faults, operations on the host",
    "spyre.execution": "launches of kernels, copies",
    "spyre.memory": "regions of device memory",
    "spyre.compiler": "plans of kernels",
    "spyre.device": "devices: opened, selected, reset",
}

VARIABLES = (
    "SPYRE_LOGS", "TORCH_LOGS", "TORCH_SPYRE_DEBUG", "SPYRE_INDUCTOR_LOG", "SPYRE_INDUCTOR_LOG_LEVEL", "SPYRE_LOG_FILE",
)  # fmt: skip
"""Variables that are read."""

DEFAULT_SOURCE = "default"
PROGRAM_SOURCE = "programmatic"


class LogLevel(enum.IntEnum):
    """Levels of the standard library, and one above all of them."""

    NOTSET = 0
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50
    DISABLED = 60

    @classmethod
    def parse(cls, level: LogLevel | int | str) -> LogLevel:
        """The level that a name or a number means; of a number between two, the louder one."""
        if isinstance(level, str) and not level.strip().isdigit():
            try:
                return cls[_ALIASES.get(level.strip().upper(), level.strip().upper())]
            except KeyError:
                names = ", ".join(name.name for name in cls)
                raise ValueError(f"log level {level!r} is none of {names}") from None
        number = int(level)
        return max((known for known in cls if known <= number), default=cls.NOTSET)


_ALIASES = {"WARN": "WARNING", "FATAL": "CRITICAL", "OFF": "DISABLED", "TRACE": "DEBUG"}


class _State:
    """The levels that were asked for, who asked, and the file that lines go to."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_initialized = False
        self.variables: list[str | None] = []
        """Their values when they were read."""
        self.levels: dict[str, LogLevel] = {}
        self.sources: dict[str, str] = {}
        self.log_file: str | None = None
        self.log_file_source = DEFAULT_SOURCE


_state = _State()


def initialize(environment: Mapping[str, str] | None = None, *, force: bool = False) -> None:
    """Reads the environment, once. ``force`` forgets everything that was set and reads it again."""
    with _state.lock:
        if _state.is_initialized and not force:
            return
        if force:
            _forget()
        _state.is_initialized = True
        environment = os.environ if environment is None else environment
        _state.variables = _values(environment)
        _read_legacy(environment)
        _read_torch_logs(environment)
        _read_list("SPYRE_LOGS", environment.get("SPYRE_LOGS", ""), strict=True)
        _apply()


def is_outdated() -> bool:
    """Returns True if the environment has changed since it was read, or was not read yet."""
    return not _state.is_initialized or _state.variables != _values(os.environ)


def _values(environment: Mapping[str, str]) -> list[str | None]:
    return [environment.get(name) for name in VARIABLES]


def get_logger(component: str) -> logging.Logger:
    """The logger of a component: ``get_logger("runtime")`` is that of ``spyre.runtime``."""
    initialize()
    return logging.getLogger(_name(component))


def list_components() -> list[str]:
    """All names that levels can be set for, ``spyre`` aside, which stands for all of them."""
    return list(COMPONENTS)


def get_log_level(component: str) -> LogLevel:
    """Returns a component's level: the one that was set for it, or else for the nearest one above it."""
    initialize()
    name = _name(component)
    with _state.lock:
        for known in _upwards(name):
            if known in _state.levels:
                return _state.levels[known]
    return LogLevel.WARNING


def set_log_level(component: str, level: LogLevel | int | str) -> None:
    """Sets the level of a component, and of all below it."""
    initialize()
    with _state.lock:
        _set(_name(component), LogLevel.parse(level), PROGRAM_SOURCE)
        _apply()


def enable(component: str = ROOT, level: LogLevel | int | str = LogLevel.DEBUG) -> None:
    """Lets a component speak; without a name, all of them."""
    set_log_level(component, level)


def disable(component: str = ROOT) -> None:
    """Silences a component; without a name, all of them."""
    set_log_level(component, LogLevel.DISABLED)


def get_log_file() -> str | None:
    """The file that lines go to; ``None`` is the standard error stream."""
    initialize()
    return _state.log_file


def set_log_file(path: str | os.PathLike[str] | None) -> None:
    """Has lines go to a file, at its end; ``None`` is the standard error stream again."""
    initialize()
    with _state.lock:
        _set_log_file(path, PROGRAM_SOURCE)
        _apply()


def get_effective_config() -> dict[str, LogLevel]:
    """Returns the level of each component."""
    return {component: get_log_level(component) for component in COMPONENTS}


def get_output_config() -> dict[str, str | None]:
    """Returns the file that lines go to, and the source of that setting."""
    initialize()
    return {"log_file": _state.log_file, "log_file_source": _state.log_file_source}


def get_config_source(component: str) -> str:
    """Returns the source of a level: "programmatic", a variable, "legacy:" and a variable, or "default"."""
    initialize()
    with _state.lock:
        for known in _upwards(_name(component)):
            if known in _state.sources:
                return _state.sources[known]
    return DEFAULT_SOURCE


def get_config_for_cpp() -> dict[str, int | str]:
    """Returns all levels as numbers, and the file (empty: standard error), for code that is not Python."""
    config: dict[str, int | str] = {name: int(level) for name, level in get_effective_config().items()}
    config["log_file"] = get_log_file() or ""
    return config


def _name(component: str) -> str:
    name = component if component == ROOT or component.startswith(ROOT + ".") else f"{ROOT}.{component}"
    if name != ROOT and not any(known in COMPONENTS for known in _upwards(name)):
        raise ValueError(f"there is no component {component!r}: {', '.join(COMPONENTS)}")
    return name


def _upwards(name: str):
    while name:
        yield name
        name = name.rpartition(".")[0]


def _set(name: str, level: LogLevel, source: str) -> None:
    """Sets a level, and drops the levels of components below: the last setting counts."""
    below = [known for known in _state.levels if known.startswith(name + ".")]
    for known in below:
        del _state.levels[known], _state.sources[known]
    _state.levels[name] = level
    _state.sources[name] = source


def _set_log_file(path: str | os.PathLike[str] | None, source: str) -> None:
    _state.log_file = None if path is None else os.fspath(path)
    _state.log_file_source = source
    _drop_handler()


def _forget() -> None:
    for name in _state.levels:
        logging.getLogger(name).setLevel(logging.NOTSET)
    _drop_handler()
    _state.levels, _state.sources = {}, {}
    _state.log_file, _state.log_file_source = None, DEFAULT_SOURCE


def _our_handlers() -> list[logging.Handler]:
    """Found on the logger, so that a second copy of this module does not write every line twice."""
    return [handler for handler in logging.getLogger(ROOT).handlers if getattr(handler, "is_spyres", False)]


def _drop_handler() -> None:
    for handler in _our_handlers():
        logging.getLogger(ROOT).removeHandler(handler)
        handler.close()


def _apply() -> None:
    """Gives the loggers their levels, and the root one a handler if a level or a file was set.

    If none was, the loggers are as the standard library makes them: warnings go where the program sends its
    own.
    """
    extension = _extension()
    if extension is not None:
        extension._hand_over_logs()  # earlier lines are written with the earlier settings
    root = logging.getLogger(ROOT)
    if (_state.levels or _state.log_file) and not _our_handlers():
        handler = _handler()
        handler.is_spyres = True  # type: ignore[attr-defined]
        handler.setFormatter(logging.Formatter("[%(levelname)s] [%(name)s] %(message)s"))
        root.addHandler(handler)
    root.propagate = not _our_handlers()
    root.setLevel(_state.levels.get(ROOT, LogLevel.WARNING))
    for name in COMPONENTS:
        logging.getLogger(name).setLevel(_state.levels.get(name, LogLevel.NOTSET))
    tell_extension()


def _extension():
    return sys.modules.get(f"{__package__}._C") if __package__ else None


def tell_extension() -> None:
    """Tells the compiled part how loud to be, if it is loaded."""
    extension = _extension()
    if extension is not None:
        extension._set_log_levels({name: int(level) for name, level in get_effective_config().items()})


def _handler() -> logging.Handler:
    if _state.log_file is None:
        return _StandardError()
    return logging.FileHandler(_state.log_file, delay=True)


class _StandardError(logging.StreamHandler):
    """Writes to what is the standard error stream when a line is written, not when this was made."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr


def _read_list(variable: str, value: str, *, strict: bool) -> None:
    """Entries such as ``runtime:DEBUG``. Those of others are skipped unless ``strict``."""
    for entry in filter(None, (entry.strip() for entry in value.split(","))):
        component, colon, level = entry.partition(":")
        component = component.strip()
        if not strict and component != ROOT and not component.startswith(ROOT + "."):
            continue
        try:
            _set(_name(component), LogLevel.parse(level if colon else LogLevel.DEBUG), variable)
        except ValueError as error:
            # A word in the environment must not keep a program from starting.
            print(f"{variable}: ignored {entry!r}: {error}", file=sys.stderr)


def _read_torch_logs(environment: Mapping[str, str]) -> None:
    value = environment.get("TORCH_LOGS", "")
    for entry in (entry.strip() for entry in value.split(",")):
        if entry.lstrip("+-") == "torch_spyre":
            levels = {"+": LogLevel.DEBUG, "-": LogLevel.ERROR}
            _set(ROOT, levels.get(entry[0], LogLevel.INFO), "TORCH_LOGS")
    _read_list("TORCH_LOGS", value, strict=False)


def _read_legacy(environment: Mapping[str, str]) -> None:
    if _is_on(environment.get("TORCH_SPYRE_DEBUG")):
        _set(ROOT, LogLevel.DEBUG, "legacy:TORCH_SPYRE_DEBUG")
    level = environment.get("SPYRE_INDUCTOR_LOG_LEVEL")
    if _is_on(environment.get("SPYRE_INDUCTOR_LOG")):
        _set_legacy("SPYRE_INDUCTOR_LOG", level or "DEBUG")
    elif level:
        _set_legacy("SPYRE_INDUCTOR_LOG_LEVEL", level)
    if environment.get("SPYRE_LOG_FILE"):
        _set_log_file(environment["SPYRE_LOG_FILE"], "legacy:SPYRE_LOG_FILE")


def _set_legacy(variable: str, level: str) -> None:
    try:
        _set("spyre.inductor", LogLevel.parse(level), f"legacy:{variable}")
    except ValueError as error:
        print(f"{variable}: ignored: {error}", file=sys.stderr)


def _is_on(value: str | None) -> bool:
    return value is not None and value.strip().lower() not in ("", "0", "false", "off", "no")
