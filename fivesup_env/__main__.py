"""`python -m fivesup_env`: the console program `fivesup`."""

import sys

from fivesup_env.cli import main

if __name__ == "__main__":
    sys.exit(main())
