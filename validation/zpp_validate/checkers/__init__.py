"""Is a file whole and right? One checker a kind of trace, and those of checkpoints."""
