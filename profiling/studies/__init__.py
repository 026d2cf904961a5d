"""Studies: a question answered by measurements. Each ends in a table, a plot and a sentence."""
