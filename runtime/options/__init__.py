"""The options of all operations: each written once, with type, default, meaning and limits."""
