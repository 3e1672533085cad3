"""JSON of the wrong shape in what no run writes alone: engines' folders, web pages, trails, progress."""

import random
from collections.abc import Iterator

from .runner import Input
from .world import HAS_CTRANSLATE2

SHAPES = (None, [], {}, "x", 3, -1, 1.5, True, [1], ["x"], {"x": 1}, 10**30, 1e308, "\ud800", "a\0b")
CONFIG_KEYS = (
    "vocab_size", "decoder_vocab_size", "max_position_embeddings", "add_source_bos", "is_encoder_decoder", "prefix",
    "task_specific_params", "source_language", "pad_token_id", "eos_token_id", "weights_digest", "unk_token",
)  # fmt: skip
ENGINE_FILES = ("config.json", "generation_config.json", "shared_vocabulary.json", "tokenizer_config.json")
TRAIL_KEYS = ("environments", "steps", "texts", "recipe", "initial", "tokenizer", "teacher")
STEP = "run/checkpoints/update-00000004"
VERIFY = ("verify", "run", "--steps", "1")
TRANSLATE = ("translate", "ct2", "--input", "text.txt", "--output", "out.txt", "--max_new_tokens", "3")
PAGE = (("write", "page/page.json", "{}"), ("write", "page/index.html", ""))
ROOT: tuple[str, ...] = ()  # the whole content of a file


def inputs(choose: random.Random) -> Iterator[Input]:
    """All inputs of this surface."""
    for shape in SHAPES:
        for key in CONFIG_KEYS:
            yield changed("model/config.json", shape, (key,), ("translate", "model", *TRANSLATE[2:]))
        for key in TRAIL_KEYS:
            yield changed("run/trail.json", shape, (key,), VERIFY)
            yield changed("run/results.json", shape, ("trail", key), ("card", "run"))
        yield changed("run/results.json", shape, ("tests",), ("card", "run"))
        digests = (("new_digests", STEP),)
        yield changed(f"{STEP}/progress.json", shape, ROOT, VERIFY, later=digests)
        yield changed(f"{STEP}/progress.json", shape, ROOT, ("average", "run", "--output", "out"), later=digests)
        for trail in (ROOT, ("files",)):
            yield changed("page/page.json", shape, trail, ("push", "page", "you/x"), PAGE)
        line = ({"update": 1, "loss": shape}, {"update": shape, "loss": 1.0})
        for number, record in enumerate(line):
            yield changed("run/log.jsonl", record, ROOT, ("curves", "run"), name=f"log {number} {shape!a:.30}")
        if HAS_CTRANSLATE2:
            for key in CONFIG_KEYS:
                yield changed("ct2/config.json", shape, (key,), TRANSLATE)
            for file in ENGINE_FILES:
                yield changed(f"ct2/{file}", shape, ROOT, TRANSLATE)


def changed(
    path: str,
    shape: object,
    trail: tuple[str, ...],
    argv: tuple[str, ...],
    before: tuple[tuple, ...] = (),
    later: tuple[tuple, ...] = (),
    name: str = "",
) -> Input:
    """A command on a file in which one value, or all of it, has another shape."""
    name = name or f"{path} {'.'.join(trail)} is {shape!a:.30}"
    return Input(f"shape {name}: {argv[0]}", argv, steps=(*before, ("set_value", path, shape, *trail), *later))
