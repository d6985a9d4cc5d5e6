"""Pictures and timelines of one file."""
