"""Processes that evaluate: the fork server, its clients, and what passes between them."""
