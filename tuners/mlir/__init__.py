"""The auto-scheduler for MLIR: what a module has to schedule, the space of schedules, and modules that carry them."""
