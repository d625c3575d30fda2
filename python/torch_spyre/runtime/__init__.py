"""The runtime by its own names: plans, Operations and the streams that carry them out.

    stream = SpyreStream()
    plan = ExecutionPlan("plans/matmul")
    plan.load(stream)
    launch_kernel(stream, plan, [a, b, c])
    stream.synchronize()

An :class:`ExecutionPlan` is what a compiler wrote: an ordered list of :class:`Operation`. Each is an optional
:class:`SpyreCompute` and the :class:`PreProcessCompute` steps before it. :class:`SpyreStream` decomposes an Operation
into control blocks and queues them; a :class:`ControlBlockStream` keeps them, to be queued again and again.

PyTorch's own work goes the same way: ``torch.spyre.trace().operations`` lists it as Operations.
"""

from __future__ import annotations

from .._C import DeviceHandle, SpyreCompute, SpyreTensorLayout
from ..kernels import launch_kernel
from .operations import Operation
from .plans import ExecutionPlan
from .steps import CopyFromDevice, CopyToDevice, CPUTensor, DeviceLaunch, PreProcessCompute
from .streams import ControlBlockStream, SpyreStream
from .tensors import SpyreTensor, device_handle

SpyreDeviceLayout = SpyreTensorLayout
"""The name that the stick layout proposal gives to ``SpyreTensorLayout``."""

__all__ = [
    "CPUTensor",
    "ControlBlockStream",
    "CopyFromDevice",
    "CopyToDevice",
    "DeviceHandle",
    "DeviceLaunch",
    "ExecutionPlan",
    "Operation",
    "PreProcessCompute",
    "SpyreCompute",
    "SpyreDeviceLayout",
    "SpyreStream",
    "SpyreTensor",
    "device_handle",
    "launch_kernel",
]
