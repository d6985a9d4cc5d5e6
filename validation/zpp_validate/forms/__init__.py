"""Closed forms of a configuration: bytes, messages, memory, operations."""
