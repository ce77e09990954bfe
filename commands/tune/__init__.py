"""The commands of `kernelwright tune`."""
