"""Evaluation on other machines: the same payload, run by a local evaluator there."""
