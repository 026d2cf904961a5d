"""The big pipeline at full size with random weights: speed depends on shapes, not on what the weights say, so measured
against predicted time can be shown without a download."""
