"""Support of evaluators for each kernel language, one file each."""
