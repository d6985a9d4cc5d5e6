"""Comparison of two measurements, or of one with a baseline."""
