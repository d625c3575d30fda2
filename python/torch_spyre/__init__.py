"""`torch.device("spyre")`: PyTorch on the open Spyre stack.

`import torch` finds this package by its entry point and calls :func:`_autoload`, which registers the
device. Nothing is started until a tensor, a stream or a device is asked for.
"""

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .explanation import explain

__all__ = ["__version__", "_autoload", "explain"]

_lock = threading.Lock()


def _autoload() -> None:
    """Registers the device with PyTorch, once. It never raises: `import torch` must not fail."""
    with _lock:
        if _autoload._ran:
            return
        _autoload._ran = True
    try:
        _register()
    except Exception as error:  # noqa: BLE001
        import warnings

        warnings.warn(f"torch_spyre could not be loaded: {error}", RuntimeWarning, stacklevel=2)


_autoload._ran = False


def _register() -> None:
    import atexit
    import threading

    import torch

    from . import _C  # registers allocator, guard, hooks and ops

    _C.set_plan_bundle(f"{__path__[0]}/plans.bundle")

    torch.utils.rename_privateuse1_backend("spyre")
    from . import _module

    torch._register_device_module("spyre", _module.make_spyre_module())
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    from . import grad_scaler, integrations, interchange, kernels, layouts, model_utils, printing
    from .profiler import legacy

    layouts.install()
    kernels.install()
    printing.install()
    model_utils.patch_module_to_for_spyre()
    integrations.install()
    interchange.install()
    legacy.install()
    grad_scaler.install()
    threading._register_atexit(_C._end_on_interrupt)  # runs before all callbacks of atexit
    atexit.register(_C._flush_logs)
    atexit.register(_C._make_way)
    atexit.register(_C._flush_autograd)


_FILES = {"__version__": "version", "explain": "explanation"}
"""Files of names that are read when they are asked for: the version is the extension's."""


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    globals()[name] = value = getattr(importlib.import_module(f".{_FILES[name]}", __name__), name)
    return value


import torch  # noqa: E402, F401  loads the libraries that the extension needs, and finds us above
