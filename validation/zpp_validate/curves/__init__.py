"""The loss curve of zeropp beside that of plain PyTorch, from the same weights and the same data."""
