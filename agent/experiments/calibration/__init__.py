"""Every engine measured with nothing beside it: the samples that the profiler's laws are fitted to."""
