"""Processes that evaluate: the fork server, its clients, and the messages between them."""
