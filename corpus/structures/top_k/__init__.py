"""The largest elements of short rows."""
