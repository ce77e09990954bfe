"""What no honest kernel does: looked for in the source before it runs, and in the process while it runs."""
