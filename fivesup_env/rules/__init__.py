"""The game itself, exactly and once; knows nothing of reinforcement learning. Rule ids are those of docs/rules.md."""
