"""Ctrl-C in every wait for the device."""
