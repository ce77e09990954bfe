"""The worked examples that models are shown."""

EXAMPLES = ("corpus list --backend triton", "corpus add results")
