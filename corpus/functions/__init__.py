"""A function of a user's own package as a self-contained kernel and problem, and the way back into its files."""
