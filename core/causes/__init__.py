"""Causes of lost time: a table from observed facts to sentences with a figure, the cause and what it costs."""
