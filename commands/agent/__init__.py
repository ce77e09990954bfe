"""The instructions that language models follow."""

EXAMPLES = ("agent compile results",)
