"""The subcommands of `hf-vaswani`, one per file: its options, and a thin layer over one function of the package."""
