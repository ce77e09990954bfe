"""The process that runs a candidate, and its client."""
