"""Names that the package and its users share."""

DEVICE_NAME = "spyre"
"""What the device is called: ``torch.device(DEVICE_NAME)``."""

DISTRIBUTED_BACKEND_NAME = "spyreccl"
"""What the collectives are called: ``init_process_group(DISTRIBUTED_BACKEND_NAME)``."""
