"""The files that inputs work on, how they are prepared, and the names that Python inputs can use.

The world is a folder with `work`, in which commands run, and `outside`, which they must not touch:

- `run` a finished training run with two checkpoints, its text in `train.*`, `valid.*`, `test.*`, its recipe in
  `recipe.yaml`; `mine.txt` in it is the user's own
- `ctranslate2` and `onnx` the model of `model` for other engines
- `model` a model's folder, `other` one with a different vocabulary, `marian` the first as transformers' MarianMT, and
  `fairseq.pt` a file of a different kind
- `ct2` the first for CTranslate2, if that is installed
- `text.txt` and `refs.txt` a text and its translation, also as `pairs.*`
- `mine` the user's own folder
"""

import gzip
import importlib.util
import json
import os
import random
import shutil
from pathlib import Path

CONFIG = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
          "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}  # fmt: skip
RECIPE = {
    "data": {f"{split}_{side}": f"{name}.{end}" for split, name in
             (("train", "train"), ("validation", "valid"), ("test", "test"))
             for side, end in (("source", "x"), ("target", "y"))},
    "tokenizer": {"vocab_size": 40},
    "model": CONFIG,
    "training": {"max_steps": 4, "num_train_epochs": 2, "max_tokens": 60, "warmup_steps": 2, "logging_steps": 1,
                 "eval_steps": 2, "eval_sentences": 2, "save_steps": 2, "average_last": 2, "cpu_threads": 1,
                 "mixed_precision": "no"},
    "generation": {"num_beams": 1, "max_length_offset": 2},
}  # fmt: skip
HAS_CTRANSLATE2 = importlib.util.find_spec("ctranslate2") is not None
COMMANDS = (  # that make the world, in order
    ["train", "recipe.yaml", "--output_dir", "run", "--evaluation.attention", "1"],
    ["average", "run", "--output", "model"],
    ["train", "recipe.yaml", "--output_dir", "b", "--vocab_size", "30", "--joint", "false", "--max_steps", "1",
     "--share_encoder_decoder_embeddings", "false"],
    ["average", "b", "--output", "other"],
    ["export", "model", "marian"],
    ["export", "model", "ctranslate2", "--to", "ctranslate2"],
    ["export", "model", "onnx", "--to", "onnx"],
    ["train", "recipe.yaml", "--output_dir", "adapter", "--start_from", "model", "--r", "2", "--max_steps", "2"],
    *([["export", "model", "ct2", "--to", "ctranslate2"]] if HAS_CTRANSLATE2 else []),
)  # fmt: skip
# The contents of a run's folder; the digits in a name are a step.
RUN_FILES = [
    "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    "results.json", "log.jsonl", "training_recipe.yaml", "README.md", "test_translations.txt", "curves.png",
    "pictures/curves.png", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json", "architecture/config.json",
    "architecture/generation_config.json", "best/update-00000004/scores.json",
    *(f"checkpoints/update-00000004/{name}" for name in
      ("progress.json", "digests.json", "optimizer.pt", "model.safetensors")),
]  # fmt: skip
RUN_FOLDERS = ["checkpoints", "best", "tokenizer", "architecture", "pictures", "checkpoints/update-00000004"]

LINES = ["a b c", "b a d e", "c c", "h g f e d", "a"]
TEXTS = {  # kinds of text files, most of them odd
    "empty": b"",
    "only a newline": b"\n",
    "blank lines": b"\n \n\t\n\n\n",
    "one line more": "\n".join([*LINES, "a"]).encode() + b"\n",
    "no last newline": "\n".join(LINES).encode(),
    "BOM": b"\xef\xbb\xbf" + "\n".join(LINES).encode() + b"\n",
    "CRLF": "\r\n".join(LINES).encode() + b"\r\n",
    "lone CR": "\r".join(LINES).encode(),
    "Latin-1": b"a b\nc\xe9 d\nc\nd\na\n",
    "UTF-16": "\n".join(LINES).encode("utf-16"),
    "UTF-8 cut": b"a\nb\nc\nd\n\xe2\x82",
    "surrogates": b"a \xed\xa0\x80\nb\nc\nd\ne\n",
    "NUL": b"a\x00b\n\x00\nc\nd\ne\n",
    "controls": b"a\x1b[31mb\n\x07\nc\x0cd\nd\x0be\ne\n",
    "line separators": "a\u2028b\nc\u2029\nd\x85e\nf\ng\n".encode(),
    "odd scripts": "עברית ‮abc\n漢字仮名\n👩‍👩‍👧‍👦 🏳️‍🌈\ne\u0301\u0301\u0301\n\ufeff\n".encode(),
    "special tokens": b"<s> a </s>\n<pad>\n<unk> <0x41>\n<mask>\n\xe2\x96\x81\n",
    "huge line": b"a " * 60_000 + b"\nb\nc\nd\ne\n",
    "huge word": b"a" * 200_000 + b"\nb\nc\nd\ne\n",
    "binary": random.Random(0).randbytes(3000),
}
PLAIN = "".join(f"{line}\n" for line in LINES).encode()


def zstd(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


PACKED = {  # kinds of compressed files, with their suffix; most of them damaged
    "good.gz": lambda: gzip.compress(PLAIN, mtime=0),
    "two members.gz": lambda: gzip.compress(PLAIN[:8], mtime=0) + gzip.compress(PLAIN[8:], mtime=0),
    "empty.gz": lambda: b"",
    "of nothing.gz": lambda: gzip.compress(b"", mtime=0),
    "plain text.gz": lambda: PLAIN,
    "cut.gz": lambda: gzip.compress(PLAIN, mtime=0)[:-6],
    "cut head.gz": lambda: gzip.compress(PLAIN, mtime=0)[:5],
    "checksum.gz": lambda: gzip.compress(PLAIN, mtime=0)[:-8] + b"\0" * 8,
    "flipped.gz": lambda: flip(gzip.compress(PLAIN, mtime=0), 20),
    "trailing.gz": lambda: gzip.compress(PLAIN, mtime=0) + b"garbage",
    "bomb.gz": lambda: gzip.compress(b"a" * 5_000_000, mtime=0),
    "good.zst": lambda: zstd(PLAIN),
    "empty.zst": lambda: b"",
    "plain text.zst": lambda: PLAIN,
    "cut.zst": lambda: zstd(PLAIN)[:-4],
    "flipped.zst": lambda: flip(zstd(PLAIN), 12),
    "trailing.zst": lambda: zstd(PLAIN) + b"garbage",
    "text.bz2": lambda: b"BZh9" + PLAIN,
    "text.xz": lambda: b"\xfd7zXZ\x00" + PLAIN,
    "text.zip": lambda: b"PK\x03\x04" + PLAIN,
}
# Compressed files whose content cannot be read, or not completely.
UNREADABLE = {"plain text.gz", "cut.gz", "cut head.gz", "checksum.gz", "flipped.gz", "plain text.zst", "cut.zst",
              "flipped.zst", "text.bz2", "text.xz", "text.zip"}  # fmt: skip


def make(folder: Path, execute) -> None:
    """Make the world.

    Args:
        execute: runs an input there.
    """
    work, outside = folder / "work", folder / "outside"
    for place in (work / "mine", outside, folder / "home"):
        place.mkdir(parents=True)
    choose = random.Random(0)
    for split, size in (("train", 40), ("valid", 4), ("test", 3)):
        lines = [" ".join(choose.choices("abcdefgh", k=choose.randint(2, 5))) for _ in range(size)]
        (work / f"{split}.x").write_text("".join(f"{line}\n" for line in lines))
        (work / f"{split}.y").write_text("".join(f"{line[::-1]}\n" for line in lines))
    (work / "text.txt").write_bytes(PLAIN)
    (work / "refs.txt").write_text("".join(f"{line[::-1]}\n" for line in LINES))
    pairs = [(line, line[::-1]) for line in LINES]
    (work / "pairs.tsv").write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    (work / "pairs.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    records = [json.dumps({"source": a, "target": b}) for a, b in pairs]
    (work / "pairs.jsonl").write_text("".join(f"{record}\n" for record in records))
    (work / "recipe.yaml").write_text(json.dumps(RECIPE))
    (work / "fairseq.pt").write_bytes(b"PK\x03\x04 no checkpoint")
    for path in (work / "mine" / "photo.png", work / "mine" / "thesis.txt", work / "mine.txt", work / "notes.png",
                 outside / "precious.txt", outside / "precious.png", outside / "x_translations.txt"):  # fmt: skip
        path.write_text(f"{path.name}: years of work\n")
    for argv in COMMANDS:
        outcome = execute(argv)
        if outcome.status != 0 or outcome.problems:
            raise RuntimeError(f"The world cannot be made: {outcome}")
    # A relative path, so that each copy of the world uses its own model.
    set_value(str(work / "adapter" / "adapter_config.json"), "model", "base_model_name_or_path")
    (work / "run" / "mine.txt").write_text("of the user's own\n")
    (work / "run" / "notes").mkdir()
    (work / "run" / "notes" / "mine.md").write_text("of the user's own\n")
    shutil.rmtree(work / "b")
    shutil.rmtree(folder / "cache", ignore_errors=True)


# Steps that change the world before an input; each function returns what it did, for the report of a failure.


def text(path: str, kind: str) -> str:
    """Write a file of one of the kinds in `TEXTS` and `PACKED`."""
    Path(path).write_bytes(TEXTS[kind] if kind in TEXTS else PACKED[kind]())
    return f"{path}: {kind}"


def write(path: str, content: str | bytes) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return f"{path} contains {content[:200]!r}{'…' * (len(content) > 200)}"


def append(path: str, content: str) -> str:
    with open(path, "a") as file:
        file.write(content)
    return f"{path} ends in {content!r}"


def link(path: str, target: str) -> str:
    os.symlink(target, path)
    return f"ln -s {target} {path}"


def plant(path: str, target: str) -> str:
    """Put a link in the place of a file or folder."""
    if os.path.lexists(path):
        remove(path)
    return link(path, os.path.abspath(target))


def hard_link(path: str, target: str) -> str:
    os.link(target, path)
    return f"ln {target} {path}"


def folder(path: str, mode: int = 0o755) -> str:
    os.makedirs(path)
    os.chmod(path, mode)
    return f"mkdir -m {mode:o} {path}"


def chmod(path: str, mode: int) -> str:
    os.chmod(path, mode)
    return f"chmod {mode:o} {path}"


def remove(path: str) -> str:
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
    return f"rm -r {path}"


def flip(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


def copy(path: str, target: str) -> str:
    shutil.copy(path, target) if os.path.isfile(path) else shutil.copytree(path, target)
    return f"cp -r {path} {target}"


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "cut last byte": lambda content: content[:-1],
    "one bit": lambda content: flip(content, len(content) // 2),
    "first bit": lambda content: flip(content, 0),
    "emptied": lambda content: b"",
    "null": lambda content: b"null",
    "list": lambda content: b"[]",
    "text": lambda content: b'"x"',
    "number": lambda content: b"1e999",
    "object": lambda content: b"{}",
    "deep": lambda content: b'{"a":' * 5000,
    "NUL": lambda content: b"\0" * len(content),
    "Latin-1": lambda content: b"{'\xe9': 1}\n",
    "BOM": lambda content: b"\xef\xbb\xbf" + content,
    "twice": lambda content: content * 2,
}


def damage(path: str, kind: str) -> str:
    """Damage a file, or replace it with something else."""
    if not os.path.lexists(path):
        return f"{path} is not there"
    if kind in DAMAGES:
        os.chmod(path, 0o644)
        Path(path).write_bytes(DAMAGES[kind](Path(path).read_bytes()))
        return f"{path}: {kind}"
    if kind == "unreadable":
        return chmod(path, 0)
    if kind == "read-only":
        return chmod(path, 0o555 if os.path.isdir(path) else 0o444)
    if kind == "leads out":
        out = os.path.abspath(os.path.join("../outside", os.path.basename(path)))
        shutil.move(path, out)
        return f"mv {path} {out}; {link(path, out)}"
    remove(path)
    return {
        "gone": lambda: f"rm -r {path}",
        "a folder": lambda: folder(path),
        "a file": lambda: write(path, "of the user's own"),
        "a loop": lambda: link(path, os.path.basename(path)),
        "to nowhere": lambda: link(path, "nowhere/at/all"),
        "/dev/null": lambda: link(path, "/dev/null"),
    }[kind]()


ODD_VALUES = (
    None, True, 0, -1, 1e308, 10**30, "", "x", "../../outside/precious.txt", "a\nb", "\u0000", "\ud800", [], {},
    [None], ["x"], [["x", 1]], {"x": None}, {"": []}, float("nan"), float("inf"), "x" * 5000,
)  # fmt: skip


def odd_value(path: str, number: int) -> str:
    """Replace one value somewhere in a JSON or YAML file, or in a line of JSON lines, or remove or add a key."""
    import yaml

    choose, content = random.Random(number), Path(path).read_text()
    lines = content.splitlines() if path.endswith(".jsonl") else [content]
    line = choose.randrange(len(lines))
    tree = yaml.safe_load(lines[line]) if path.endswith(".yaml") else json.loads(lines[line])
    parent, trail = tree, []
    while True:
        key = choose.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        trail.append(str(key))
        if not (isinstance(parent[key], dict | list) and parent[key] and choose.random() < 0.7):
            break
        parent = parent[key]
    place, way = f"{path}, line {line + 1}, {'.'.join(trail)}", choose.random()
    if way < 0.15:
        del parent[key]
        did = f"{place} is gone"
    else:
        value = choose.choice(ODD_VALUES)
        parent["odd" if way > 0.9 and isinstance(parent, dict) else key] = value
        did = f"{place} is {str(value)[:60]!r}" if isinstance(value, str) else f"{place} is {value}"
    lines[line] = json.dumps(tree)  # JSON is YAML
    Path(path).write_text("\n".join(lines) + "\n" * path.endswith(".jsonl"))
    return did


def set_value(path: str, value: object, *trail: str) -> str:
    """Set one value in a JSON file, or all of it if no key is given."""
    root = {"": None if not trail else json.loads(Path(path).read_text())}
    *places, last = ["", *trail]
    parent = root
    for key in places:
        parent = parent[key]
    parent[last] = value
    Path(path).write_text(json.dumps(root[""]))
    return f"{path}: {'.'.join(trail) or 'all of it'} is {value!r}"


def set_key(path: str, section: str, name: str, value: object) -> str:
    """Set one key of a recipe."""
    import yaml

    recipe = yaml.safe_load(Path(path).read_text())
    recipe.setdefault(section, {})[name] = value
    Path(path).write_text(yaml.safe_dump(recipe))
    return f"{path}: {section}.{name} is {value!r}"


def in_card(path: str, language: str, step: str, *arguments) -> str:
    """Apply a step to the last code block of a language in a card, as to a file."""
    before, fence, rest = Path(path).read_text().rpartition(f"```{language}\n")
    block, after = rest.split("\n```", 1)
    file = Path(f"{path}.{language}")
    file.write_text(block)
    did = globals()[step](str(file), *arguments)
    Path(path).write_bytes(f"{before}{fence}".encode() + file.read_bytes() + f"\n```{after}".encode())
    file.unlink()
    return did


def rename_key(path: str, name: str, *trail: str) -> str:
    """Rename the key of one value in a JSON file."""
    content = json.loads(Path(path).read_text())
    parent = content
    for key in trail[:-1]:
        parent = parent[key]
    parent[name] = parent.pop(trail[-1])
    Path(path).write_text(json.dumps(content))
    return f"{path}: {'.'.join(trail)} is called {name!r}"


def new_digests(path: str) -> str:
    """Recompute the digests of a checkpoint's files."""
    from hf_vaswani.files import file_digest
    from hf_vaswani.training.checkpoints.checkpoint import DIGEST, DIGESTS_FILE

    names = [name for name in sorted(os.listdir(path)) if name != DIGESTS_FILE]
    Path(path, DIGESTS_FILE).write_text(json.dumps({name: file_digest(Path(path, name), DIGEST) for name in names}))
    return f"{path}/{DIGESTS_FILE} is made again"


def parquet(path: str, columns: dict) -> str:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return f"{path} contains {str(columns)[:100]}"


# What Python inputs can use.


LOADED: dict[str, object] = {}


def pull_with(*names: str) -> None:
    """Pull from a repository that has files of these names besides those of a model and of a run."""
    from types import SimpleNamespace

    import huggingface_hub

    from hf_vaswani.hub.pull import pull

    def download(repository: str, local_dir: Path, **options) -> None:
        for file in info.siblings:
            path = Path(os.path.join(local_dir, *file.rfilename.split("/")))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")

    all_names = ["config.json", "results.json", "last-checkpoint/checkpoints/update-00000004/x", *names]
    info = SimpleNamespace(sha="0" * 40, siblings=[SimpleNamespace(rfilename=name, size=1) for name in all_names])
    huggingface_hub.HfApi.model_info = lambda *arguments, **options: info
    huggingface_hub.snapshot_download = download
    pull("you/de-en", "out")


def load(work: Path) -> None:
    """Load models and what they need, once in each worker."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    LOADED.update(
        {
            "model": AutoModelForSeq2SeqLM.from_pretrained(work / "model"),
            "other": AutoModelForSeq2SeqLM.from_pretrained(work / "other"),
            "tokenizer": AutoTokenizer.from_pretrained(work / "model"),
            "translator": pipeline("translation", model=str(work / "model")),
            "ids": torch.tensor([[4, 5, 6, 2], [7, 8, 2, 0]]),
            "pipeline": pipeline,
        }
    )


def names() -> dict[str, object]:
    """All names for inputs: what is loaded, public names of the package's modules, and a few from other libraries."""
    import torch

    import hf_vaswani
    from hf_vaswani import interop
    from hf_vaswani.data.tokenizers import arguments, tokenizer
    from hf_vaswani.evaluation import attention, score
    from hf_vaswani.models import ensemble
    from hf_vaswani.training.checkpoints import average
    from hf_vaswani.training.recipe import recipe
    from hf_vaswani.training.reporting import rewrite_card
    from hf_vaswani.translator import mbr, pairs, pipeline

    modules = (
        arguments,
        tokenizer,
        attention,
        score,
        average,
        rewrite_card,
        recipe,
        ensemble,
        mbr,
        pairs,
    )
    public = {name: value for module in modules for name, value in vars(module).items() if name[0] != "_"}
    public["translate"] = pipeline.translate
    public |= {name: getattr(interop, name) for name in interop.__all__}
    others = {
        "torch": torch,
        "vaswani": hf_vaswani,
        "Path": Path,
        "json": json,
        "config": CONFIG,
        "pull_with": pull_with,
    }
    return {**public, **LOADED, **others}


def execute(code: str) -> None:
    """Run the code of an input."""
    exec(compile(code, "input", "exec"), names())
