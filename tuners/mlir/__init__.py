"""The auto-scheduler for MLIR: analysis of modules, spaces of schedules, and modules with schedules."""
