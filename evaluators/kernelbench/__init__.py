"""KernelBench's own evaluation of a kernel, and its result files."""
