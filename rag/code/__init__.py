"""What a kernel is and has, told from its syntax tree alone: never from names, comments or texts."""
