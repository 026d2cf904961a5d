"""Experiments: what needs engines and gives samples, which `profiling` explains."""
