"""The special tokens that a tokenizer adds to a text: the one that ends it."""

from tokenizers import Tokenizer, processors


def append_eos(tokenizer: Tokenizer, token: str) -> None:
    """Make a tokenizer end each text, or pair of texts, with a token of its vocabulary."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", token], pair=["$A", "$B", token], special_tokens=[(token, tokenizer.token_to_id(token))]
    )
