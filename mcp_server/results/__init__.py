"""What tools return: typed, with units, made of the records of `api`. A field's docstring is its schema's description."""
