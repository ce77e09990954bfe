"""KernelBench's own way to evaluate a kernel, and the files in which it keeps the results."""
