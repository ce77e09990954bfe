"""Isolates a kernel under test from the rest of the machine: bubblewrap, Landlock, or nothing."""
