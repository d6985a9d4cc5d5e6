"""The arithmetic of the library once more, in NumPy and in PyTorch."""
