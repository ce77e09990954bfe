"""A package that adds to kernelwright by entry points: a tuner, an evaluator, a rule and a command, one file each."""
