"""How well zpp_plan predicts what is known."""
