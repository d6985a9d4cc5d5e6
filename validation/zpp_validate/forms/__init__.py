"""What follows from a configuration: bytes, messages, memory, operations, in closed form."""
