"""`python -m hf_vaswani`: runs the `hf-vaswani` command."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
