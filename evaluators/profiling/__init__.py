"""What a device and a kernel do: peaks, operation counts, occupancy, profilers."""
