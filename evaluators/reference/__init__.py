"""The process that runs the reference, and its client."""
