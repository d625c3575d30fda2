"""Every operator that has kernels, in all dtypes, at ragged sizes and through awkward operands, against the CPU."""
