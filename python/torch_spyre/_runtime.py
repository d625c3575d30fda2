"""The one thing with state behind ``torch.spyre``: whether the runtime has started, and what waits for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _C

if TYPE_CHECKING:
    import logging

BAD_FORK = (
    "Cannot re-initialize Spyre in forked subprocess. To use Spyre with multiprocessing, you must use "
    "the 'spawn' start method"
)


class Runtime:
    """Starts the runtime when it is first needed. ``torch.spyre._impl`` is the only one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._starting = threading.local()
        self._queued: list[tuple[Callable[[], None], list[str]]] = []
        self._has_warned = False
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """A thread that the child does not have may have held the lock."""
        self._lock = threading.RLock()

    def is_initialized(self) -> bool:
        """Returns True if the runtime has started, in this process."""
        return _C.is_initialized() and not self._is_in_bad_fork()

    def _is_in_bad_fork(self) -> bool:
        """Returns True in a child of a process that had started the runtime: it cannot use the device."""
        return os.environ.get("IS_INDUCTOR_SPAWNED_SUBPROCESS") == "1" or _C._is_in_bad_fork()

    def _lazy_init(self) -> None:
        """Starts the runtime if need be, then does what was put off until now."""
        if (_C.is_initialized() and not self._queued) or hasattr(self._starting, "now"):
            if not _C._is_in_bad_fork():
                return
        if self._is_in_bad_fork():
            raise RuntimeError(BAD_FORK)
        with self._lock:
            self._start()

    def _start(self) -> None:
        self._starting.now = True
        try:
            if not _C.is_initialized():
                self._warn_of_devices()
                logger = self._logger()
                _C.start_runtime()
                logger.debug("started: %d devices", _C.device_count())
            while self._queued:
                self._run(*self._queued.pop(0))
        finally:
            del self._starting.now

    def _run(self, queued: Callable[[], None], stack: list[str]) -> None:
        try:
            queued()
        except Exception as error:
            raise RuntimeError(
                f"Spyre call failed lazily at initialization with error: {error}\n\n"
                f"Spyre call was originally invoked at:\n\n{''.join(stack)}"
            ) from error

    def _lazy_call(self, call: Callable[[], None], **_: Any) -> None:
        """Calls it now, or when the runtime starts."""
        if self.is_initialized():
            call()
        else:
            import traceback

            with self._lock:
                self._queued.append((call, traceback.format_stack()))

    def device_count(self) -> int:
        """Returns the number of devices that this process sees. Does not start the runtime."""
        return _C.device_count()

    def is_available(self) -> bool:
        """Returns True if there is a device to use. Never raises, and does not start the runtime."""
        try:
            return self._is_in_bad_fork() or self.device_count() > 0
        except RuntimeError:
            return False

    def _warn_of_devices(self) -> None:
        text = None if self._has_warned else _C.devices_warning()
        self._has_warned = True
        if text:
            import warnings

            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _logger(self) -> logging.Logger:
        from . import logging_config

        logger = logging_config.get_logger("runtime")
        logging_config.tell_extension()
        return logger


runtime = Runtime()
