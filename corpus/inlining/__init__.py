"""Functions or files with what they need of others, as one self-contained source."""
