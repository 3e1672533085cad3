"""The page that models are tried on, a Gradio app: `hf-vaswani app`, and the `app.py` of a Space."""

from .server import launch

__all__ = ["launch"]
