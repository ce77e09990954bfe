"""Settings of the kernels."""

FLAGS = ["-O3", "-march=native"]
