"""Models for several language pairs, whose sources begin with a token that names the target language."""

import html
import json
import re
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer, pipeline

from hf_vaswani import VaswaniTokenizer
from hf_vaswani.cli import main
from hf_vaswani.core.pipeline_translation import TranslationPipeline as SmallPipeline
from hf_vaswani.data.tokenizers.arguments import SPECIAL_TOKENS
from hf_vaswani.data.tokenizers.tokenizer import with_marks
from hf_vaswani.engines.checked_export import export_model, page_languages
from hf_vaswani.errors import InputError
from hf_vaswani.interop.marian import write
from hf_vaswani.models.ensemble import Ensemble
from hf_vaswani.server.catalog import GivenModel, Pair, model_pairs
from hf_vaswani.text.languages import Languages, own_languages
from hf_vaswani.translator.pairs import align_pairs, score_pairs
from hf_vaswani.translator.reranking import open_reranker
from hf_vaswani.web.files import page_files

from ..conftest import tiny_model, word_tokenizer

PAIRS = [["de", "en"], ["en", "de"], ["fr", "en"], ["en", "fr"]]
WORDS = [f"w{n}" for n in range(12)]
MARKS = [">>en<<", ">>de<<", ">>fr<<"]


def save_model(folder, pairs, marks):
    settings = {**SPECIAL_TOKENS, "split_special_tokens": True}
    tokenizer = with_marks(VaswaniTokenizer(tokenizer_object=word_tokenizer(WORDS), **settings), marks)
    size = len(tokenizer)
    model = tiny_model(vocab_size=size, decoder_vocab_size=size, language_pairs=pairs)
    model.generation_config.max_new_tokens = 8
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def many(tmp_path):
    """The folder of a model for several target languages."""
    return save_model(tmp_path / "many", PAIRS, MARKS)


@pytest.fixture
def into_en(tmp_path):
    """The folder of a model for several source languages."""
    return save_model(tmp_path / "into_en", [["de", "en"], ["fr", "en"]], [])


@pytest.fixture
def read(many):
    """Returns the tokens that the encoder reads of a text; arguments are those of the pipeline."""
    translator = pipeline("translation", many)

    def tokens(text, **options):
        [row] = translator.translator(**options).encoder.rows([text])
        return translator.tokenizer.convert_ids_to_tokens(row["input_ids"])

    tokens.translator = translator
    return tokens


def test_target_language_is_filled_in_where_the_source_leaves_no_choice(read):
    assert read("w1", src_lang="de")[0] == ">>en<<"
    assert read("w1", src_lang="en", tgt_lang="fr")[0] == ">>fr<<"
    with pytest.raises(ValueError, match="several languages: de, en, fr. Choose one with tgt_lang"):
        read.translator("w1", src_lang="en")


def test_direction_that_was_not_trained_is_refused_unless_it_is_asked_for(read):
    with pytest.raises(ValueError, match="de to en or en to de or fr to en or en to fr. .* with zero_shot"):
        read.translator("w1", src_lang="de", tgt_lang="fr")
    assert read("w1", src_lang="de", tgt_lang="fr", zero_shot=True)[0] == ">>fr<<"
    for pair in ({"src_lang": "es", "tgt_lang": "fr"}, {"src_lang": "de", "tgt_lang": "es"}):
        with pytest.raises(ValueError, match="Use its own languages, or none"):
            read.translator("w1", **pair, zero_shot=True)


def test_model_into_one_language_is_not_asked_for_another(into_en):
    translator = pipeline("translation", into_en, src_lang="de")
    assert translator("w1") == pipeline("translation", into_en)("w1", src_lang="fr", tgt_lang="en")
    with pytest.raises(ValueError, match="Use its own languages, or none"):
        translator("w1", tgt_lang="fr", zero_shot=True)


def test_mark_of_a_text_must_name_a_trained_direction(read):
    assert read(">>fr<< w1", src_lang="en", tgt_lang="de")[0] == ">>fr<<"
    with pytest.raises(ValueError, match="src_lang='de' and tgt_lang='fr'"):
        read.translator(">>fr<< w1", src_lang="de")


def test_what_only_looks_like_a_mark_is_text(read):
    assert read(">>xx<< w1", tgt_lang="fr")[:2] == [">>fr<<", "<unk>"]
    with pytest.raises(ValueError, match="Choose one with tgt_lang"):
        read.translator(">>xx<< w1")


def test_each_sentence_of_a_text_gets_the_mark_of_the_text(read):
    translator = read.translator
    both = translator(">>fr<< w1 w2. w3 w4.")[0]["translation_text"].split()
    alone = [translator(text, tgt_lang="fr")[0]["translation_text"] for text in ("w1 w2.", "w3 w4.")]
    assert both == " ".join(alone).split()


def test_marks_are_not_aligned(read, many):
    [result] = read.translator("w1 w2 w3", tgt_lang="de", return_alignments=True)
    assert result["source_tokens"] == ["w1", "w2", "w3"]
    tokenizer, pair = read.translator.tokenizer, ("w1 w2 w3", "w4 w5")
    links = align_pairs(read.translator.model, tokenizer, [pair], tgt_lang="de")[0]
    assert links and {source for source, _ in links} <= {0, 1, 2}
    [own] = align_pairs(read.translator.model, tokenizer, [(">>de<< w1 w2 w3", "w4 w5")])
    assert own == {(source + 1, target) for source, target in links}  # the mark is its first word


def test_scores_need_a_target_language_and_a_trained_direction(read):
    model, tokenizer = read.translator.model, read.translator.tokenizer
    [marked] = score_pairs(model, tokenizer, [(">>en<< w1", "w2")])
    assert list(score_pairs(model, tokenizer, [("w1", "w2")], src_lang="de")) == [marked]
    with pytest.raises(ValueError, match="Choose one with tgt_lang"):
        list(score_pairs(model, tokenizer, [("w1", "w2")]))
    with pytest.raises(ValueError, match="with zero_shot"):
        score_pairs(model, tokenizer, [("w1", "w2")], src_lang="de", tgt_lang="fr")
    assert list(score_pairs(model, tokenizer, [("w1", "w2")], src_lang="de", tgt_lang="fr", zero_shot=True))


def test_model_that_knows_the_opposite_direction_reranks(many):
    assert open_reranker(many, None, [PAIRS], {"src_lang": "en", "tgt_lang": "fr"}).languages == {
        "src_lang": "fr", "tgt_lang": "en",
    }  # fmt: skip
    assert open_reranker(many, None, [PAIRS], {"tgt_lang": "fr"}).languages["tgt_lang"] == "en"
    with pytest.raises(InputError, match="Name the source language of the translations"):
        open_reranker(many, None, [PAIRS], {"tgt_lang": "en"})


def test_ensemble_has_models_of_the_same_directions(many, tmp_path):
    first = pipeline("translation", many)
    other = pipeline("translation", save_model(tmp_path / "fewer", PAIRS[:2], MARKS))
    both = pipeline("translation", model=Ensemble([first.model, first.model]), tokenizer=first.tokenizer)
    assert both("w1", src_lang="de") == first("w1", tgt_lang="en")
    with pytest.raises(ValueError, match="Model 2 of the ensemble translates de to en or en to de, the first"):
        Ensemble([first.model, other.model])


def test_every_direction_is_served(many, into_en):
    assert model_pairs(GivenModel(many)) == {Pair(*pair): Languages(*pair) for pair in PAIRS}
    assert model_pairs(GivenModel(into_en)) == {Pair(*pair): Languages(*pair) for pair in PAIRS[::2]}


@pytest.mark.parametrize("engine", ["ctranslate2", "onnx", "marian"])
def test_export_translates_and_refuses_as_the_model(many, engine, tmp_path):
    pytest.importorskip({"ctranslate2": "ctranslate2", "onnx": "onnxruntime", "marian": "transformers"}[engine])
    model = pipeline("translation", many)
    export_model(model.model, model.tokenizer, tmp_path / "exported", to=engine)
    exported = pipeline("translation", str(tmp_path / "exported"))
    for source, target in PAIRS:
        given = {"src_lang": source, "tgt_lang": target}
        assert exported("w1 w2", **given) == model("w1 w2", **given)
    with pytest.raises(ValueError, match="with zero_shot"):
        exported("w1", src_lang="de", tgt_lang="fr")
    with pytest.raises(ValueError, match="Choose one with tgt_lang"):
        exported("w1")


def test_marian_config_keeps_the_directions(many):
    assert write(pipeline("translation", many).model).config.language_pairs == PAIRS


def test_pipeline_of_a_checkpoint_knows_the_languages(many, into_en):
    whole = pipeline("translation", many)
    small = SmallPipeline(whole.model, tokenizer=whole.tokenizer)
    text = "w1 w2. w3 w4."
    for languages in ({"tgt_lang": "fr"}, {"src_lang": "de"}, {"src_lang": "en", "tgt_lang": "de"}):
        assert small(text, **languages) == whole(text, **languages)
    assert small(f">>fr<< {text}") == whole(text, tgt_lang="fr")
    for languages, message in (
        ({}, "Choose one with tgt_lang"),
        ({"src_lang": "de", "tgt_lang": "fr"}, "translates de"),
    ):
        with pytest.raises(ValueError, match=message):
            small(text, **languages)
    one = pipeline("translation", into_en)
    assert SmallPipeline(one.model, tokenizer=one.tokenizer)("w1", src_lang="fr") == one("w1")


def test_tokenizer_takes_languages_when_it_is_loaded(many, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(many, src_lang="en", tgt_lang="fr")
    assert tokenizer.convert_ids_to_tokens(tokenizer("w1")["input_ids"]) == [">>fr<<", "w1", "</s>"]
    tokenizer.save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert (again.src_lang, again.tgt_lang, again("w1")) == ("en", "fr", tokenizer("w1"))
    with pytest.raises(ValueError, match="tgt_lang='es' is unknown: this model translates into en, de, fr"):
        AutoTokenizer.from_pretrained(many, tgt_lang="es")


def test_languages_of_the_tokenizer_are_those_of_the_pipeline(many):
    tokenizer = AutoTokenizer.from_pretrained(many, src_lang="de", tgt_lang="fr")
    with pytest.raises(ValueError, match="src_lang='de' and tgt_lang='fr'"):
        pipeline("translation", model=many, tokenizer=tokenizer)


def test_mark_that_is_refused_costs_no_other_text_its_translation(read):
    translator = read.translator.translator(src_lang="de", on_error="return")
    refused, translated = translator.translate([">>fr<< w1", "w1"])
    assert "src_lang='de' and tgt_lang='fr'" in str(refused)
    assert translated == read.translator("w1", src_lang="de")


def test_server_opens_a_model_for_several_languages(many):
    from hf_vaswani.server.messages import Chunk
    from hf_vaswani.server.model_translator import _Loaded

    loaded = _Loaded(many, "torch", None, ())
    [[one], [other]] = loaded.lanes[0].translate([Chunk(("w1",), Languages(*pair), 1) for pair in PAIRS[1::2]])
    for translation, target in ((one, "de"), (other, "fr")):
        assert translation.hypotheses[0] == pipeline("translation", many)("w1", tgt_lang=target)[0]["translation_text"]


def test_app_offers_the_targets_of_a_source(many):
    from hf_vaswani.app.models import LoadedModel, target_choices

    whole = pipeline("translation", many)
    loaded = LoadedModel(many, whole.model, whole.tokenizer)
    assert [target_choices(loaded, source) for source in ("de", "en", None)] == [
        ["en"],
        ["de", "fr"],
        ["de", "en", "fr"],
    ]


def test_page_has_menus_of_languages_where_there_are_several_targets(many, into_en):
    pages = []
    for name in (many, into_en):
        whole = pipeline("translation", name)
        (source, target), pairs = page_languages(whole.model, whole.tokenizer)
        choices = json.dumps(pairs) if pairs else ""
        files = page_files(
            "browser", title="", source_language=source or "", target_language=target or "", pairs=choices
        )
        pages.append(files["index.html"].decode())
    menu, label = pages
    found = re.search('<select id="source-language".* data-pairs="(.*?)"', menu)
    assert json.loads(html.unescape(found[1])) == PAIRS
    assert "<select" not in label and 'data-language="en"' in label


def test_pairs_that_are_named_by_a_part_of_their_code_are_found():
    config = SimpleNamespace(language_pairs=[["es", "pt-BR"], ["es", "gn"]])
    assert own_languages(config, None, ("es", "pt")) == ("es", "pt-BR")
    assert own_languages(config, None, ("es", None)) == ("es", None)
    assert own_languages(config, None, (None, "gn")) == ("es", "gn")
    assert own_languages(config, None, ("gn", "es")) == ("gn", "es")


@pytest.fixture
def run(many, write_lines, tmp_path, capsys):
    """Runs a command on a model and two lines, and returns its exit status and what it says."""
    text = write_lines("text", ["w1 w2", "w3"])

    def run(command, *options):
        files = {
            "translate": ["--input", text, "--output", str(tmp_path / "out")],
            "score": ["--source", text, "--target", text],
            "evaluate": ["--source", text, "--reference", text, "--metrics", "chrf"],
            "attention": ["--text", "w1 w2", "--output", str(tmp_path / "out.png")],
            "beam-tree": ["--text", "w1 w2", "--output", str(tmp_path / "out.svg")],
        }
        capsys.readouterr()
        status = main([command, many, *files[command], *options])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


COMMANDS = ["translate", "score", "evaluate", "attention", "beam-tree"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_need_a_trained_direction(run, command, tmp_path):
    status, said = run(command)
    assert (status, "Choose one with --target_language" in said) == (2, True)
    untrained = ["--source_language", "de", "--target_language", "fr"]
    status, said = run(command, *untrained)
    assert (status, "or try this one, on which it was not trained, with --zero_shot" in said) == (2, True)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("out")]
    assert run(command, *untrained, "--zero_shot")[0] == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_fill_in_the_only_target_language(run, command):
    assert run(command, "--source_language", "de")[0] == 0


def test_export_is_compared_in_the_direction_that_is_given(many, write_lines, tmp_path, capsys):
    pytest.importorskip("ctranslate2")
    text = write_lines("text", ["w1 w2", "w3"])
    command = [
        "export",
        many,
        str(tmp_path / "exported"),
        "--to",
        "ctranslate2",
        "--source",
        text,
        "--reference",
        text,
    ]
    assert main(command) == 2
    assert "Choose one with --target_language" in capsys.readouterr().err
    assert main([*command, "--target_language", "fr"]) == 0
    card = (tmp_path / "exported" / "README.md").read_text()
    assert 'translator("w1 w2", tgt_lang="fr")' in card
    assert "from de to en, en to de, fr to en, en to fr" in card
