"""Speed, measured; nothing here is a test. `python -m benchmarks` prints a table and one JSON line."""
