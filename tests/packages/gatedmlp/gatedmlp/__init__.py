"""A gated feed-forward layer."""
