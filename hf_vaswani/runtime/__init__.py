"""The machine under a run: cores and threads, processes, launchers, signals, memory, precision."""
