"""Where the rules split words, and that decoding restores the text."""

import pytest
from transformers import AutoTokenizer

from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer

# Texts and their words; the marker shows where a word had no space next to it.
ENGLISH = {
    "I don't, can't and won't.": "I do ￭n't ￭, ca ￭n't and wo ￭n't ￭.",
    "It's true: we've said I'll go; they'd": "It ￭'s true ￭: we ￭'ve said I ￭'ll go ￭; they ￭'d",
    "DON’T! The dogs' O'Neill": "DO ￭N’T ￭! The dogs ￭' O'Neill",
    "3.14 or 1,000, at 10:30; 1/2": "3.14 or 1,000 ￭, at 10:30 ￭; 1/2",
    "The U.S. and U.S.A., e.g. AT&T at ted.com.": "The U.S. and U.S.A. ￭, e.g. AT&T at ted.com ￭.",
    "(well-known) $5 50%": "(￭ well ￭-￭ known ￭) $￭ 5 50 ￭%",
    "Wait... no -- yes--no!": "Wait ￭... no -- yes ￭--￭ no ￭!",
    "The end.Begin 'here'": "The end ￭.￭ Begin '￭ here ￭'",
}
FRENCH = {
    "L'homme qu'il a vu, c'est lui": "L'￭ homme qu'￭ il a vu ￭, c'￭ est lui",
    "Aujourd'hui, l’eau n'est pas là": "Aujourd'hui ￭, l’￭ eau n'￭ est pas là",
    "Jusqu'à ce que quelqu'un s'arrête !": "Jusqu'￭ à ce que quelqu'un s'￭ arrête !",
    "« Où est-il ? » dit-elle": "« Où est ￭-￭ il ? » dit ￭-￭ elle",
}
TEXTS = {**ENGLISH, **FRENCH}


def learn(**arguments):
    pairs = [(text, text) for text in TEXTS]
    arguments = {"type": "word", "pre_tokenizer": "rules", "min_frequency": 1, "vocab_size": 1000, **arguments}
    return train_tokenizer(pairs, TokenizerArguments(**arguments))


@pytest.mark.parametrize(("text", "words"), TEXTS.items())
def test_rules_split_contractions_and_elisions_but_not_numbers_or_abbreviations(text, words):
    assert learn().tokenize(text) == words.split(" ")


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("words", ["rules", "punctuation"])
def test_decoding_restores_the_text_after_reloading(words, joint, tmp_path):
    learn(pre_tokenizer=words, joint=joint).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        ids = tokenizer(text_target=text)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
