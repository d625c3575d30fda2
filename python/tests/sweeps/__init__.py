"""Sweeps over PyTorch's `op_db` that compare the device with the CPU in what samples alone do not show."""
