"""Imports other systems' models, detecting which system each one comes from, and exports to Marian."""

from .marian import export_checkpoint
from .marian import write as export_marian
from .sources import import_checkpoint, import_model, import_tokenizer

__all__ = ["export_checkpoint", "export_marian", "import_checkpoint", "import_model", "import_tokenizer"]
