"""The steps of an Operation that run before its compute: copies, and launches such as a program correction."""

from __future__ import annotations

from typing import ClassVar

import torch

from .. import _C
from .._C import DeviceHandle
from .tensors import spyre_tensor


class CPUTensor:
    """A tensor in host memory that copies borrow: read it when the stream has come there.

    Args:
        values: a tensor on the CPU, whose elements are copied.
    """

    def __init__(self, values: torch.Tensor) -> None:
        if not isinstance(values, torch.Tensor):
            raise TypeError(f"expected a tensor on the CPU, not a {type(values).__name__}")
        if values.device.type != "cpu":
            raise ValueError(f"expected a tensor on the CPU, not on {values.device}")
        self.shape = tuple(values.shape)
        self.dtype = values.dtype
        plain = values.detach().contiguous().reshape(-1)
        self._raw = _C.HostTensor(list(self.shape), self.dtype, plain.view(torch.uint8).numpy().tobytes())

    @classmethod
    def like(cls, tensor: torch.Tensor) -> CPUTensor:
        """Zeros, for all elements of a tensor on the device."""
        return cls(torch.zeros(tensor.shape, dtype=tensor.dtype))

    def torch(self) -> torch.Tensor:
        """Its elements. Raises while a copy that writes them is queued or runs: synchronize first."""
        data = bytearray(self._raw.bytes())
        plain = torch.frombuffer(data, dtype=self.dtype) if data else torch.empty(0, dtype=self.dtype)
        return plain.reshape(self.shape)

    def __repr__(self) -> str:
        return f"<CPUTensor {self.dtype}{list(self.shape)}>"


class PreProcessCompute:
    """A step before an Operation's compute: one control block.

    It is one of :class:`CopyToDevice`, :class:`CopyFromDevice` and :class:`DeviceLaunch`.
    """

    CopyToDevice: ClassVar[type[CopyToDevice]]
    CopyFromDevice: ClassVar[type[CopyFromDevice]]
    DeviceLaunch: ClassVar[type[DeviceLaunch]]

    _raw: _C.RawStep
    _target: torch.Tensor | None = None
    """The tensor on the device that is written, if one was given."""

    @staticmethod
    def _of(raw: _C.RawStep) -> PreProcessCompute:
        """A step that the runtime made."""
        step = object.__new__({"CopyToDevice": CopyToDevice, "CopyFromDevice": CopyFromDevice}.get(raw.kind, DeviceLaunch))
        step._raw = raw
        return step

    @property
    def device_handle(self) -> DeviceHandle | None:
        """The device's side; ``None`` for a program correction, of which every stream has its own."""
        return self._raw.device_handle

    def __repr__(self) -> str:
        size = "" if self._raw.size is None else f", {self._raw.size} bytes"
        place = "the stream's correction" if self.device_handle is None else self.device_handle
        return f"<{type(self).__name__} {place}{size}>"


class _Copy(PreProcessCompute):
    host_address: CPUTensor | None = None
    """The host's side; ``None`` for correction inputs, which are assembled at each launch."""

    @property
    def size(self) -> int:
        """Device bytes that are copied."""
        return self._raw.size or 0


class CopyToDevice(_Copy):
    """A copy from the host to the device: of a whole tensor, in its layout, or of bytes as they are.

    Args:
        host_address: what is copied. Of a tensor, the elements are taken now.
        device_handle: a tensor on the device of the same sizes; or where bytes go.
        size: with a handle, how many bytes; all of them, if it is not given.
        offset: with a handle, bytes before the first.
    """

    def __init__(
        self,
        host_address: CPUTensor | torch.Tensor,
        device_handle: torch.Tensor | DeviceHandle,
        size: int | None = None,
        *,
        offset: int = 0,
    ) -> None:
        self.host_address = host_address if isinstance(host_address, CPUTensor) else CPUTensor(host_address)
        host = self.host_address._raw
        if isinstance(device_handle, DeviceHandle):
            size = len(host.bytes()) if size is None else size
            self._raw = _C.RawStep.copy_to_device(host, device_handle, offset, size)
        else:
            self._raw = _C.RawStep.copy_to_tensor(host, spyre_tensor(device_handle))
            self._target = device_handle


class CopyFromDevice(_Copy):
    """A copy from the device to the host: of a whole tensor, from its layout, or of bytes as they are.

    Args:
        host_address: where it goes.
        device_handle: a tensor on the device of the same sizes; or where bytes come from.
        size: with a handle, how many bytes; as many as the host has, if it is not given.
        offset: with a handle, bytes before the first.
    """

    def __init__(
        self,
        host_address: CPUTensor,
        device_handle: torch.Tensor | DeviceHandle,
        size: int | None = None,
        *,
        offset: int = 0,
    ) -> None:
        if not isinstance(host_address, CPUTensor):
            raise TypeError(f"expected a CPUTensor to copy to, not a {type(host_address).__name__}")
        self.host_address = host_address
        host = host_address._raw
        if isinstance(device_handle, DeviceHandle):
            size = len(host.bytes()) if size is None else size
            self._raw = _C.RawStep.copy_from_device(host, device_handle, offset, size)
        else:
            self._raw = _C.RawStep.copy_from_tensor(host, spyre_tensor(device_handle))


class DeviceLaunch(PreProcessCompute):
    """A launch of a binary that lies in device memory, such as a program correction."""

    def __init__(self, device_handle: DeviceHandle) -> None:
        self._raw = _C.RawStep.device_launch(device_handle)


PreProcessCompute.CopyToDevice = CopyToDevice
PreProcessCompute.CopyFromDevice = CopyFromDevice
PreProcessCompute.DeviceLaunch = DeviceLaunch
