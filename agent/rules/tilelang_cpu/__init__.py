"""Rules for TileLang on a CPU."""
