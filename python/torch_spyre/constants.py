"""Names that the package and its users share, and the numbers of a real card."""

DEVICE_NAME = "spyre"
"""Name of the device: ``torch.device(DEVICE_NAME)``."""

DISTRIBUTED_BACKEND_NAME = "spyreccl"
"""Name of the collectives' backend: ``init_process_group(DISTRIBUTED_BACKEND_NAME)``."""

CORES = 32
"""Cores of a card: the most that ``SENCORES`` may ask for."""

STICK_BYTES = 128
"""Bytes of a stick, the unit in which a card reads and writes memory. Every address is a multiple of it."""

SCRATCHPAD_BYTES = 2 << 20
"""Bytes of a core's scratchpad (LX)."""

USABLE_SCRATCHPAD_BYTES = 1_677_721
"""Bytes of it that kernels may use: the back end keeps a fifth."""

SPAN_BYTES = 256 << 20
"""Bytes of one tensor that a core addresses."""

LAYOUT_DIMS = 6
"""The most dims of a tensor in device memory."""

SEGMENT_SIZE = 0x4_0000_0000
"""Bytes of a segment of a job's address space, 16 GiB. There are eight."""

SEGMENT_OFFSETS = tuple(SEGMENT_SIZE * segment for segment in range(7))
"""Addresses of the segments that hold tensors, one in each."""

PROG_OFFSET_BASE = 7 * SEGMENT_SIZE
"""Address of the segment that holds programs."""
