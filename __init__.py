"""kernelwright makes GPU and CPU kernels faster and proves it."""

__version__ = "0.1.0"
