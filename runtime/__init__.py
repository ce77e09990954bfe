"""The base of commands: the definition of a command, and functions that open devices, jobs and evaluators."""
