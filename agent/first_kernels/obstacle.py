"""What keeps a first kernel from being made."""


class Obstacle(Exception):
    """Code that cannot be rewritten; the message says what it contains."""
