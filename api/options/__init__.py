"""What callers can ask for: each option written once, with type, default, meaning and limits."""
