"""The sub-commands of `hf-vaswani`, one a file: its options, and a thin layer over one function of the package."""
