"""The tools: each checks its arguments, has a job done, and returns a typed reply."""
