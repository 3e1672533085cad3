"""Log-probabilities of given translations by CTranslate2: those of PyTorch, or an error."""

import json

import pytest

from hf_vaswani.cli import main
from hf_vaswani.engines.ctranslate2_model import CTranslate2Model
from hf_vaswani.translator.backends import selection
from hf_vaswani.translator.pairs import score_pairs

from ..conftest import tiny_model
from ..families import family, languages

pytest.importorskip("ctranslate2")

PAIRS = [("w1 w2 w3", "w4 w5"), ("w4", "w1 w2 w3 w6 w7"), ("w5 w6", ""), ("w7", "w7")]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def scored(monkeypatch) -> list:
    """The number of pairs in each batch that CTranslate2 scores for other callers than the check of a conversion."""
    sizes, score = [], CTranslate2Model.target_log_probabilities
    monkeypatch.setattr(
        CTranslate2Model, "target_log_probabilities",
        lambda self, *sides: sizes.append(len(sides[0])) or score(self, *sides),
    )  # fmt: skip
    return sizes


@pytest.mark.parametrize("name", ["Vaswani", "M2M100", "NLLB", "T5"])
def test_ctranslate2_gives_the_scores_of_pytorch(name, tmp_path, scored):
    model, tokenizer = family(name, tmp_path)
    pairs = [("ein hund", "haus"), ("katze", "die katze hund"), ("haus", "")]
    src, tgt = languages(name).get("src_lang"), languages(name).get("tgt_lang")
    expected, got = (
        list(score_pairs(model, tokenizer, pairs, with_tokens=True, src_lang=src, tgt_lang=tgt, engine=engine,
                         report=lambda *_: None))
        for engine in ("torch", "ctranslate2")
    )  # fmt: skip
    assert scored[-1] == sum(score is not None for score in expected) >= 2
    for one, other in zip(expected, got, strict=True):
        if one is None:
            assert other is None
            continue
        assert other.length == one.length
        assert [token for token, _ in other.tokens] == [token for token, _ in one.tokens]
        assert [p for _, p in other.tokens] == pytest.approx([p for _, p in one.tokens], abs=1e-3)
        assert other.score == pytest.approx(one.score, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "why"), [("Marian", "renormalizes its logits"), ("mBART", "targets start from another token than")]
)
def test_what_would_differ_stays_with_pytorch_or_is_an_error(name, why, tmp_path, scored, monkeypatch):
    monkeypatch.setattr(selection, "WORTH_OPENING", 1)
    monkeypatch.setattr(selection, "WORTH_CONVERTING", 1)
    model, tokenizer = family(name, tmp_path)
    if name == "Marian":
        model.generation_config.renormalize_logits = True
    pairs = [("ein hund", "haus")]
    src, tgt = languages(name).get("src_lang"), languages(name).get("tgt_lang")
    with pytest.raises(ValueError, match=f"CTranslate2 cannot compute this: .*{why}"):
        list(score_pairs(model, tokenizer, pairs, src_lang=src, tgt_lang=tgt, engine="ctranslate2"))
    auto, torch = (
        list(score_pairs(model, tokenizer, pairs, src_lang=src, tgt_lang=tgt, engine=engine))
        for engine in ("auto", "torch")
    )
    assert auto == torch and not scored


def test_long_targets_are_scored_whole(tokenizer, scored):
    pairs = [("w1 " * 1100, "w2 " * 1100)]
    model = tiny_model(max_position_embeddings=2048)
    expected, got = (
        next(score_pairs(model, tokenizer, pairs, max_length=1200, engine=engine))
        for engine in ("torch", "ctranslate2")
    )
    assert got.length == expected.length == 1101
    assert got.log_probability == pytest.approx(expected.log_probability, rel=1e-4)


def test_command_scores_with_the_chosen_engine(saved_model, write_lines, scored, capsys):
    files = [
        f"--{side}={write_lines(side, [pair[column] for pair in PAIRS])}"
        for column, side in enumerate(("source", "target"))
    ]
    results = []
    for engine in ("torch", "ctranslate2"):
        assert main(["score", str(saved_model), *files, "--format", "json", "--engine", engine]) == 0
        results.append([json.loads(line)["log_probability"] for line in capsys.readouterr().out.splitlines()])
    assert results[1] == pytest.approx(results[0], abs=1e-3) and scored[-1] == len(PAIRS)
