"""Checks for what no correct kernel needs: in the source before it runs, and in the process while it runs."""
