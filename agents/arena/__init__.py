"""The arena: duplicate matches between agents, their statistics, and the report."""
