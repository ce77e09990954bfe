"""The operations behind the commands, for Python, the command line and servers; only here are classes wired
together."""
