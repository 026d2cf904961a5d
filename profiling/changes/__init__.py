"""What could be otherwise in a turn: each change maps how long a step takes to how long it would take."""
