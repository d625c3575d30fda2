"""Random programs with faults on several streams, against a model on the CPU."""
