"""The base of commands: the form of a command, and what opens devices, jobs and evaluators."""
