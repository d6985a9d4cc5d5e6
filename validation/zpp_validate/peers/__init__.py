"""Other programs that do the same work, and raw rates of the machine; they share no code with the suite."""
