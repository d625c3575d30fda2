"""Names that the package and its users share."""

DEVICE_NAME = "spyre"
"""Name of the device: ``torch.device(DEVICE_NAME)``."""

DISTRIBUTED_BACKEND_NAME = "spyreccl"
"""Name of the collectives' backend: ``init_process_group(DISTRIBUTED_BACKEND_NAME)``."""
