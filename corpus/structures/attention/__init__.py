"""Attention, by SDPA or written out."""
