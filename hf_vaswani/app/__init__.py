"""A Gradio page to try models on, which `hf-vaswani app` and the `app.py` of a Space serve."""

from .server import launch

__all__ = ["launch"]
