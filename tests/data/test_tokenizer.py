import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_vaswani import VaswaniTokenizer
from hf_vaswani.data.arguments import TokenizerArguments
from hf_vaswani.data.tokenizer import train_tokenizer

PAIRS = [
    ("Ein Hund läuft über die Straße.", "A dog runs across the street."),
    ("Zwei Hunde schlafen; 21 Katzen nicht!", "Two dogs sleep; 21 cats don't!"),
    ("كلب يجري في الشارع، أليس كذلك؟", "A dog (brown) is running – isn't it?"),
] * 20


def test_decoding_gives_back_the_text():
    tokenizer = train_tokenizer(PAIRS, TokenizerArguments(vocab_size=150))
    for text in {side for pair in PAIRS for side in pair}:
        assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_special_tokens_have_the_ids_of_the_default_config():
    tokenizer = train_tokenizer(PAIRS, TokenizerArguments(vocab_size=150))
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert tokenizer("Hund")["input_ids"][-1] == 2


def test_vocabulary_has_the_size_asked_for():
    assert len(train_tokenizer(PAIRS, TokenizerArguments(vocab_size=120))) == 120


def test_more_letters_than_pieces_leave_the_rarest_unknown():
    pairs = [(chr(0x4E00 + i) * (1 + i % 3), "a") for i in range(300)]
    tokenizer = train_tokenizer(pairs, TokenizerArguments(vocab_size=50))
    assert len(tokenizer) <= 50
    assert tokenizer(pairs[0][0])["input_ids"][-1] == tokenizer.eos_token_id


def test_unknown_letters_are_unknown_tokens_and_no_error():
    tokenizer = train_tokenizer(PAIRS, TokenizerArguments(vocab_size=120))
    assert tokenizer.unk_token_id in tokenizer("Ж")["input_ids"]


def test_joint_tokenizer_reloads_without_custom_code(tmp_path):
    tokenizer = train_tokenizer(PAIRS, TokenizerArguments(vocab_size=120))
    tokenizer.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py"))
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(loaded, PreTrainedTokenizerFast)
    assert loaded("Ein Hund")["input_ids"] == tokenizer("Ein Hund")["input_ids"]


def test_separate_vocabularies_are_learnt_from_their_own_side():
    tokenizer = train_tokenizer(PAIRS, TokenizerArguments(vocab_size=100, joint=False))
    assert isinstance(tokenizer, VaswaniTokenizer)
    source, target = tokenizer.get_vocab(), tokenizer.get_target_vocab()
    assert "ß" in source and "ß" not in target
    for pair in PAIRS[:2]:
        encoded = tokenizer(pair[0], text_target=pair[1])
        assert tokenizer.decode(encoded["labels"], skip_special_tokens=True) == pair[1]


@pytest.mark.parametrize("text", ["  ein  Hund ", " Ein  Hund"])
def test_unusual_spaces_keep_the_words(text):
    tokenizer = train_tokenizer(PAIRS, TokenizerArguments(vocab_size=150))
    decoded = tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)
    assert decoded.split() == text.split()
