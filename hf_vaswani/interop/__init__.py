"""Import of other systems' models, whose kind is detected, and export to Marian."""

from .folders import export_checkpoint, import_checkpoint
from .marian import write as export_marian
from .sources import import_model, import_tokenizer

__all__ = ["export_checkpoint", "export_marian", "import_checkpoint", "import_model", "import_tokenizer"]
