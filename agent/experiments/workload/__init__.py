"""How much work the operations of a run's engines are, from the files that they have loaded."""
