"""Recorded workloads: datasets of flashinfer-trace, and of SOL-ExecBench, in and out."""
