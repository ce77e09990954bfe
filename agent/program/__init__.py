"""The DSPy program: what a language model is asked, what it may call, and what is made of its replies."""
