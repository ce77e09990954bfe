"""The DSPy program: requests to a language model, its tools, and the parsing of its replies."""
