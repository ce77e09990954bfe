"""Evaluation on other machines: a local evaluator there runs the same payload."""
