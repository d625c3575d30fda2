"""Random chains of views, writes, copies and casts, carried out on the CPU and on the device at once."""
