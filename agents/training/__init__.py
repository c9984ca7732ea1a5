"""Training: search data, the fit to it, self-play by PPO, and runs that hold them together."""
