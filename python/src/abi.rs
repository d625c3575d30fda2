//! The C functions that the shim calls.
