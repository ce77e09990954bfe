"""Tunes matrix products over tables of shapes, and reads and writes the config files of inference engines."""
