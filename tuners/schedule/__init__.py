"""Modulo schedules of a loop: dependences, resources, bounds, and searches over valid schedules."""
