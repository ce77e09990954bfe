"""First kernels for problems that have none."""
