"""What the commands do, for Python, the command line and servers: the only place that names concrete classes."""
