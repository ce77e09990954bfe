"""One module a command; see `runtime/command.py` for what it holds. They do not import each other."""
