"""The tokenizer of models with one vocabulary, or with separate ones for source and target.

With two, it encodes `text` with the source's and `text_target` with the target's, and decodes with the target's. A
joint vocabulary also loads without this code, as a plain fast tokenizer, until special tokens are added to it.
"""

import copy
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

AnyTokenizer = TypeVar("AnyTokenizer", bound=PreTrainedTokenizerBase)

TARGET_TOKENIZER_FILE = "target_tokenizer.json"
# Folders of two plain tokenizers next to a model that other classes must not mistake for one with a joint vocabulary.
SIDE_FOLDERS = {"source": "source_tokenizer", "target": "target_tokenizer"}
# The entry in a tokenizer's settings that says whether it reads sources in capitals as lower case.
FOLDS_CAPITALS = "folds_capitals"
# What a source begins with to name the language that it is to be translated into, as in Marian: `>>fr<< `.
LANGUAGE_MARK = re.compile(r">>(\S+?)<<\s*")
TAG = re.compile(r"<[\w-]+>\s*")
# A target term in a source, between the characters that stand for `<term>` and `</term>`, keeps its case.
TERM = re.compile("(\ufddc[^\ufddd]*\ufddd)")


def fold_capitals(text: str) -> str:
    """Turn a text into lower case if it has several words, all of them in capitals, but for a language mark."""
    if mark := LANGUAGE_MARK.match(text):
        return mark.group() + fold_capitals(text[mark.end() :])
    parts = TERM.split(text)
    words = [word for part in parts[::2] for word in part.split() if any(map(str.isalpha, word))]
    if not words or len(words) + len(parts) // 2 < 2 or not all(map(str.isupper, words)):
        return text
    return "".join(part if number % 2 else part.lower() for number, part in enumerate(parts))


def leading_marks(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """What a text begins with that is not to be translated: the token of a target language, and that of a tag.

    Only tokens of the tokenizer are; anything else that looks like them is text. This holds for Marian's, too.
    """
    end, mark = 0, LANGUAGE_MARK.match(text)
    if mark and mark.group().strip() in (getattr(tokenizer, "supported_language_codes", None) or ()):
        end = mark.end()
    # The tokens of tags have no role, such as the end of a text.
    if (tag := TAG.match(text, end)) and (token := tag.group().strip()) in tokenizer.get_added_vocab():
        roles = [str(getattr(tokenizer, name, None)) for name in tokenizer.SPECIAL_TOKENS_ATTRIBUTES]
        end = end if token in roles else tag.end()
    return text[:end]


def private_copy(tokenizer: AnyTokenizer) -> AnyTokenizer:
    """Copy a tokenizer, so that its settings can be changed for one call; it shares all tokens with the original.

    Encoding changes settings: truncation, languages, and whether text is a source or a target. Another thread that
    uses the same tokenizer would get them, too.
    """
    copied = object.__new__(type(tokenizer))
    vars(copied).update(vars(tokenizer))
    if hasattr(tokenizer, "backends"):  # a VaswaniTokenizer
        source, target = tokenizer.backends.values()
        copied._tokenizer = _copied_backend(source)
        copied._backends = {
            "source": copied._tokenizer,
            "target": copied._tokenizer if target is source else _copied_backend(target),
        }
    elif isinstance(backend := vars(tokenizer).get("_tokenizer"), Tokenizer):
        copied._tokenizer = _copied_backend(backend)
    return copied


def _copied_backend(backend: Tokenizer) -> Tokenizer:
    """Copy a backend without its truncation and padding, in microseconds: the vocabulary is shared."""
    copied = Tokenizer(backend.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (value := getattr(backend, part)) is not None:
            setattr(copied, part, value)
    # In the order of their ids, which they then get again.
    copied.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    copied.encode_special_tokens = backend.encode_special_tokens
    return copied


class VaswaniTokenizer(PreTrainedTokenizerFast):
    """A source and a target tokenizer in one. Special tokens have the same ids in both.

    Build it with [`from_backends`]; `save_pretrained`, `from_pretrained` and `AutoTokenizer` do the rest. Loaded from
    a folder without a target tokenizer, it uses the source's for both sides. An exported model has the two as plain
    tokenizers in separate folders, which this class reads too.

    With `split_special_tokens=True`, special tokens of the learned vocabulary, such as `</s>`, are ordinary characters
    inside a text. Those that are added later are recognized there, since that is what they are added for.

    With `folds_capitals=True`, a source of several words that are all in capitals is read as lower case.

    The tokenizer of a model for several target languages has a token for each, such as `>>fr<<`, with which a source
    begins. It is written there for `tokenizer.tgt_lang = "fr"`, unless the text already has one.

    Example:

    ```python
    >>> tokenizer = VaswaniTokenizer.from_backends(source_backend, target_backend)
    >>> tokenizer(["Der Hund schläft."], text_target=["The dog is sleeping."])  # input_ids: source, labels: target
    ```
    """

    # No `__init__`: transformers rebuilds a subclass that has one from its vocabulary, and loses the rest.
    vocab_files_names = {
        "tokenizer_file": "tokenizer.json",
        "target_tokenizer_file": TARGET_TOKENIZER_FILE,
        **{f"plain_{side}_file": f"{folder}/tokenizer.json" for side, folder in SIDE_FOLDERS.items()},
    }
    model_input_names = ["input_ids", "attention_mask"]
    padding_side = "right"

    @classmethod
    def from_backends(cls, source: Tokenizer, target: Tokenizer, **kwargs) -> "VaswaniTokenizer":
        """Combine two trained `tokenizers.Tokenizer`.

        Args:
            source, target: the tokenizers of the two sides.
            kwargs: special tokens and further arguments of `PreTrainedTokenizerFast`.

        Raises:
            ValueError: a special token does not have the same id in source and target.
        """
        tokenizer = cls(tokenizer_object=source, **kwargs)
        cls._check_same_ids(tokenizer.all_special_tokens, tokenizer._tokenizer, target)
        # `__init__` marked the source's tokens as special; without this, decoding could not skip the target's.
        target = copy.deepcopy(target)
        tokenizer._add_to(target, tokenizer.all_special_tokens, True)
        target.encode_special_tokens = tokenizer.split_special_tokens
        tokenizer._backends = {"source": tokenizer._tokenizer, "target": target}
        return tokenizer

    @classmethod
    def from_pretrained(cls, *args, **kwargs) -> "VaswaniTokenizer":
        """Load as in transformers; both vocabularies are read at once, so that the folder is not needed afterwards."""
        tokenizer = super().from_pretrained(*args, **kwargs)
        tokenizer._switch_to_input_mode()
        tokenizer.tgt_lang = tokenizer.tgt_lang  # which may be given here, and is checked
        return tokenizer

    @classmethod
    def _from_pretrained(cls, resolved_vocab_files, *args, **kwargs):
        source, target = (resolved_vocab_files.pop(f"plain_{side}_file", None) for side in SIDE_FOLDERS)
        if source and target and not resolved_vocab_files.get("tokenizer_file"):
            resolved_vocab_files.update(tokenizer_file=source, target_tokenizer_file=target)
        return super()._from_pretrained(resolved_vocab_files, *args, **kwargs)

    @property
    def backends(self) -> dict[str, Tokenizer]:
        """The tokenizers of `"source"` and `"target"`."""
        if not hasattr(self, "_backends"):
            file = self.init_kwargs.get("target_tokenizer_file")
            target = Tokenizer.from_file(str(file)) if file else self._tokenizer
            target.encode_special_tokens = self.split_special_tokens
            self._backends = {"source": self._tokenizer, "target": target}
        return self._backends

    @property
    def is_joint(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.backends["source"] is self.backends["target"]

    @property
    def target_vocab_size(self) -> int:
        """Number of target tokens; `len(tokenizer)` counts source tokens."""
        return self.backends["target"].get_vocab_size()

    def get_target_vocab(self) -> dict[str, int]:
        """Target tokens and their ids."""
        return self.backends["target"].get_vocab()

    @property
    def supported_language_codes(self) -> list[str]:
        """The tokens that name target languages, such as `>>fr<<`; none if the model has only one target language."""
        added = self.backends["source"].get_added_tokens_decoder()
        return [token.content for _, token in sorted(added.items()) if LANGUAGE_MARK.fullmatch(token.content)]

    @property
    def src_lang(self) -> str | None:
        """The language of the sources. It is not written into them, as the model does not need it."""
        return vars(self).get("_src_lang", self.init_kwargs.get("src_lang"))

    @src_lang.setter
    def src_lang(self, code: str | None):
        self._src_lang = code

    @property
    def tgt_lang(self) -> str | None:
        """The language to translate into, which is written into the sources if the model has several.

        Raises:
            ValueError: on setting it, if the model has several, and not this one.
        """
        return vars(self).get("_tgt_lang", self.init_kwargs.get("tgt_lang"))

    @tgt_lang.setter
    def tgt_lang(self, code: str | None):
        marks = self.supported_language_codes
        if code is not None and marks and f">>{code}<<" not in marks:
            known = ", ".join(mark.strip("<>") for mark in marks)
            raise ValueError(f"tgt_lang={code!r} is unknown: this model translates into {known}.")
        self._tgt_lang = code

    def _marked(self, text: str) -> str:
        return text if LANGUAGE_MARK.match(leading_marks(self, text)) else f">>{self.tgt_lang}<< {text}"

    def add_special_tokens(self, special_tokens_dict: dict, *args, **kwargs) -> int:
        """Add special tokens as in transformers, on both sides.

        If there are two vocabularies, a token with a role, such as padding, must be in both already, with the same id;
        `extra_special_tokens` may have different ids.

        Raises:
            ValueError: a token with a role is not in both vocabularies with the same id.
        """
        given = special_tokens_dict or {}
        roles = [str(given[name]) for name in self.SPECIAL_TOKENS_ATTRIBUTES if given.get(name) is not None]
        if not self.is_joint:
            self._check_same_ids(roles, *self.backends.values())
        return super().add_special_tokens(special_tokens_dict, *args, **kwargs)

    @staticmethod
    def _check_same_ids(tokens: list[str], source: Tokenizer, target: Tokenizer) -> None:
        wrong = [t for t in tokens if source.token_to_id(t) is None or source.token_to_id(t) != target.token_to_id(t)]
        if wrong:
            raise ValueError(f"Special tokens need the same id in source and target vocabulary: {', '.join(wrong)}")

    def _add_tokens(self, new_tokens, special_tokens=False) -> int:
        """Add to both vocabularies, at the end of each; returns how many the source did not have."""
        added = self._add_to(self._tokenizer, new_tokens, special_tokens)
        # While `__init__` runs, there is only one. The target's file already has what `__init__` adds.
        if hasattr(self, "_backends") and not self.is_joint:
            self._add_to(self._backends["target"], new_tokens, special_tokens)
        return added

    def _add_to(self, backend: Tokenizer, new_tokens: Sequence[str | AddedToken], special_tokens: bool) -> int:
        """Add tokens to a backend; returns how many it did not have."""
        tokens = [AddedToken(t, special=special_tokens) if isinstance(t, str) else t for t in new_tokens]
        if not self.split_special_tokens:
            return backend.add_special_tokens(tokens) if special_tokens else backend.add_tokens(tokens)
        # The backend splits at every token that it knows as special, so it knows only the vocabulary's own as such.
        learned, added = [], []
        for token in tokens:
            is_special = special_tokens or token.special
            is_learned = is_special and backend.model.token_to_id(token.content) is not None
            (learned if is_learned else added).append(token if is_learned else _not_special(token))
        return backend.add_special_tokens(learned) + backend.add_tokens(added)

    @functools.wraps(PreTrainedTokenizerFast.__call__)
    def __call__(self, *args, **kwargs):
        if kwargs.get("text_pair", args[1] if len(args) > 1 else None) is not None:
            raise ValueError(
                "text_pair, the second argument, would be joined to the source. Give the translation as text_target, "
                "and several sources as a list."
            )
        # In a copy, since transformers switches to the target and back, and another thread may be using this one.
        return super(VaswaniTokenizer, private_copy(self)).__call__(*args, **kwargs)

    def _encode_plus(self, text, *args, **kwargs):
        if not vars(self).get("_reads_targets"):
            if self.init_kwargs.get(FOLDS_CAPITALS):
                text = self._changed(text, fold_capitals, kwargs)
            if self.tgt_lang and self.supported_language_codes:
                text = self._changed(text, self._marked, kwargs)
        return super()._encode_plus(text, *args, **kwargs)

    @staticmethod
    def _changed(text, change: Callable[[str], str], kwargs):
        """Apply a change to a text, or to each of several; words of a text that is split are left alone."""
        if isinstance(text, str):
            return change(text)
        if kwargs.get("is_split_into_words"):
            return text
        return [change(each) if isinstance(each, str) else each for each in text]

    # transformers calls these two around the encoding of `text_target`.
    def _switch_to_target_mode(self):
        self._tokenizer, self._reads_targets = self.backends["target"], True

    def _switch_to_input_mode(self):
        self._tokenizer, self._reads_targets = self.backends["source"], False

    def _decode(self, token_ids, skip_special_tokens: bool = False, **kwargs) -> str:
        target = self.backends["target"]
        if skip_special_tokens and self.split_special_tokens:
            # The backend does not know those that were added as special.
            skipped = {target.token_to_id(token) for token in self.all_special_tokens}
            token_ids = [i for i in ([token_ids] if isinstance(token_ids, int) else token_ids) if i not in skipped]
        # Done without switching this tokenizer, which another thread may be using.
        of_target = object.__new__(type(self))
        of_target.__dict__ = {**self.__dict__, "_tokenizer": target}
        return super(VaswaniTokenizer, of_target)._decode(token_ids, skip_special_tokens, **kwargs)

    def save_sides(self, save_directory: str | Path) -> None:
        """Save both tokenizers for a model of another kind, in a folder from which this class reads them.

        They are plain tokenizers in subfolders. Without this class, no tokenizer is found in the folder itself, rather
        than the source's for both sides.
        """
        save_directory = Path(save_directory)
        self.save_pretrained(save_directory)
        for name in ("tokenizer.json", TARGET_TOKENIZER_FILE):
            (save_directory / name).unlink()
        for side, folder in SIDE_FOLDERS.items():
            self.plain_side(side).save_pretrained(save_directory / folder)

    def plain_side(self, side: str) -> PreTrainedTokenizerFast:
        """The tokenizer of `"source"` or `"target"` alone."""
        settings = {**self.special_tokens_map, "split_special_tokens": self.split_special_tokens}
        return PreTrainedTokenizerFast(tokenizer_object=self.backends[side], **settings)

    def save_pretrained(self, *args, **kwargs):
        """Save as in transformers; with code that is loaded only with `trust_remote_code=True` if that is needed."""
        tokenizer = private_copy(self)
        own = self.extra_special_tokens or self.init_kwargs.get(FOLDS_CAPITALS) or self.supported_language_codes
        if self.is_joint and not own:
            # Where this class is not known, transformers then loads the folder as a plain fast tokenizer.
            tokenizer._auto_class = None
        return super(VaswaniTokenizer, tokenizer).save_pretrained(*args, **kwargs)

    def _save_pretrained(self, save_directory, file_names, *args, **kwargs):
        saved = super()._save_pretrained(save_directory, file_names, *args, **kwargs)
        if self.is_joint:
            return saved
        target_file = str(Path(save_directory) / TARGET_TOKENIZER_FILE)
        self.backends["target"].save(target_file)
        return (*saved, target_file)


def _not_special(token: AddedToken) -> AddedToken:
    flags = {name: getattr(token, name) for name in ("single_word", "lstrip", "rstrip", "normalized")}
    return AddedToken(token.content, **flags)


# Saving then records where AutoTokenizer finds this class, and copies this file.
VaswaniTokenizer.register_for_auto_class("AutoTokenizer")

__all__ = ["VaswaniTokenizer", "private_copy"]
