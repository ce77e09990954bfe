"""What a kernel computes, and which are the same, from the syntax tree: never from names, comments or texts."""
