"""PyTorch's own operator samples (`op_db`), run on the device and compared with the CPU."""
