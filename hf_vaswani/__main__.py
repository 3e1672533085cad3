"""`python -m hf_vaswani`: the command `hf-vaswani`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
