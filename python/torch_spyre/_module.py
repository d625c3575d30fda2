"""The module `torch.spyre`."""

import types


def make_spyre_module() -> types.ModuleType:
    """Makes the module that `torch._register_device_module` is given."""
    module = types.ModuleType("torch.spyre", "The device spyre.")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    return module
