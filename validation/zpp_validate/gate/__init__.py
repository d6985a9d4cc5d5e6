"""What changed between two measurements, or against a baseline."""
