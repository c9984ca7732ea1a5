"""Search in sampled worlds, perfect endgames, and the winning chances that a round is worth."""
