"""Pairs that no model has: both APIs serve them over a third language if they are to, and say so."""

import asyncio

import pytest

pytest.importorskip("fastapi_offline")

from starlette.testclient import TestClient
from transformers import AutoConfig, pipeline

from hf_vaswani.errors import InputError
from hf_vaswani.server.accounts import Accounts, Limits
from hf_vaswani.server.api import make_app
from hf_vaswani.server.catalog import GivenModel, Pair, Route, make_catalog
from hf_vaswani.server.glossaries import Glossaries
from hf_vaswani.server.messages import Chunk, Pairs, Translated, Translation
from hf_vaswani.server.model_translator import ModelTranslator
from hf_vaswani.text.glossary import Glossary
from hf_vaswani.text.languages import NO_LANGUAGES, Languages
from hf_vaswani.text.pivots import PivotSentence

from .conftest import ReaderHere

FOLDERS = {"de-en": "one", "en-es": "two"}


class Step:
    """Stands in for a handle: puts its mark at the end of each line, in the first step of each sentence.

    Attributes:
        chunks: what it was given.
    """

    def __init__(self, mark):
        self.mark, self.chunks = mark, []
        self.translate = self.align = self

    async def remote(self, given):
        if isinstance(given, Pairs):
            words = zip(given.texts, given.translations)
            return [{(n, n) for n in range(min(len(text.split()), len(other.split())))} for text, other in words]
        self.chunks.append(given)
        found = [self.first_step(text) if given.is_first_step else self.second(text, given) for text in given.texts]
        return Translated(tuple(found), 1, 1, 0.0)

    def first_step(self, text):
        sentences = [f"{sentence}{self.mark}" for sentence in text.split("|")]
        pivots = tuple(PivotSentence(sentence, " ", ("x",), Glossary(())) for sentence in sentences)
        return Translation((" ".join(sentences),), ("pivot text: odd",) if "odd" in text else (), pivots)

    def second(self, text, given):
        texts = [f"{text}{self.mark}", *(f"{text}{self.mark}{n}" for n in range(1, given.n_best))]
        return Translation(tuple(texts), ("the source is odd",) if "odd" in text else ())


@pytest.fixture
def models():
    return {"de-en": Step("¹"), "en-es": Step("²")}


@pytest.fixture
def client(models):
    given = {name: GivenModel(folder) for name, folder in FOLDERS.items()}
    pairs = [{Pair(*name.split("-")): NO_LANGUAGES} for name in FOLDERS]
    app = make_app(make_catalog(given, pairs, "en"), models, Accounts(None), Limits(), Glossaries(None))
    app.state.service.reader = ReaderHere()
    return TestClient(app, raise_server_exceptions=False)


def translate(client, **fields):
    return client.post("/translate", json={"source": "de", "target": "es", **fields}).json()


def test_languages_have_the_pairs_over_the_third_one(client):
    targets = {entry["code"]: entry["targets"] for entry in client.get("/languages").json()}
    assert targets == {"de": ["en", "es"], "en": ["es"], "es": []}
    languages = client.get("/v2/languages?type=target").json()
    assert [entry["language"] for entry in languages] == ["EN", "ES"]


def test_each_sentence_goes_through_both_models_and_the_answer_says_so(client, models):
    assert translate(client, q="a b|c\nd") == {"translatedText": "a b¹² c¹²\nd¹²", "via": "en"}
    assert models["en-es"].chunks[0].texts == ("a b¹", "c¹", "d¹")
    assert models["en-es"].chunks[0].kept == (("x",),) * 3
    assert translate(client, q="a", target="en") == {"translatedText": "a¹"}


def test_of_several_texts_each_says_whether_it_went_over_a_third_language(client):
    answer = translate(client, q=["Das ist ein kleiner Hund.", "This is a small dog."], source="auto")
    assert answer["via"] == ["en", None]
    assert answer["translatedText"] == ["Das ist ein kleiner Hund.¹²", "This is a small dog.²"]


def test_alternatives_and_warnings_are_of_both_steps(client):
    assert translate(client, q="odd", alternatives=2) == {
        "translatedText": "odd¹²", "alternatives": ["odd¹²1", "odd¹²2"], "via": "en",
        "warnings": ["pivot text: odd", "the pivot text is odd"],
    }  # fmt: skip


def test_deepls_answers_say_so_too(client):
    answer = client.post("/v2/translate", json={"text": ["ein Hund"], "source_lang": "DE", "target_lang": "ES"}).json()
    assert answer["translations"] == [
        {"detected_source_language": "DE", "text": "ein Hund¹²", "billed_characters": 8, "via": "EN"}
    ]


def test_terms_are_of_the_first_step_and_pass_to_the_second(client, models):
    models["de-en"].first_step = lambda text: Translation(
        ("a dog",), (), (PivotSentence("a dog", "", (), Glossary.of({"dog": "perro"})),)
    )
    translate(client, q="ein Hund", glossary="Hund\tperro")
    [first], [second] = (model.chunks for model in models.values())
    assert [entry.source for entry in first.glossaries[0].entries] == ["Hund"]
    assert [entry.source for entry in second.glossaries[0].entries] == ["dog"]


def test_tags_and_alignments_go_over_both_steps(client):
    assert translate(client, q="<b>ein</b> Hund", format="html")["translatedText"] == "<b>ein</b> Hund¹²"
    fields = {"q": "ein Hund", "translation": "un perro", "source": "de", "target": "es"}
    assert client.post("/align", json=fields).json()["alignments"][0]["links"] == [[0, 0], [1, 1]]


def test_documents_say_so(client):
    file = {"file": ("a.txt", b"ein Hund\n")}
    answer = client.post("/translate_file", files=file, data={"source": "de", "target": "es"}).json()
    assert answer["via"] == "en"
    assert client.get(answer["translatedFileUrl"]).text == "ein Hund¹²\n"
    document = client.post("/v2/document", files=file, data={"source_lang": "DE", "target_lang": "ES"}).json()
    key = {"document_key": document["document_key"]}
    assert client.post(f"/v2/document/{document['document_id']}", json=key).json()["via"] == "EN"


def catalog(pairs, via="en"):
    models = {name: GivenModel(name) for name in pairs}
    return make_catalog(models, [{Pair(*pair): NO_LANGUAGES for pair in own} for own in pairs.values()], via)


def test_only_pairs_that_no_model_has_go_over_the_third_language():
    routes = catalog(
        {"a": [("de", "en"), ("fr", "en")], "b": [("en", "es"), ("en", "pt-BR")], "c": [("de", "pt")]}
    ).routes
    chained = {pair: (route.model, route.then.model) for pair, route in routes.items() if route.then}
    assert chained == {
        ("de", "es"): ("a", "b"), ("fr", "es"): ("a", "b"), ("fr", "pt-BR"): ("a", "b"),
    }  # fmt: skip
    assert {route.via for route in routes.values()} == {None, "en"}
    assert all(
        route.then is None for route in catalog({"a": [("de", "en")], "b": [("en", "es")]}, None).routes.values()
    )


def test_a_multilingual_model_is_told_the_languages_of_each_step():
    own = {Pair("es", "en"): Languages("spa_Latn", "eng_Latn"), Pair("en", "gn"): Languages("eng_Latn", "grn_Latn")}
    route = make_catalog({"m": GivenModel("m")}, [own], "en").routes[Pair("es", "gn")]
    assert route == Route("m", own["es", "en"], Route("m", own["en", "gn"]), "en")


@pytest.mark.parametrize("pairs, via, why", [
    ({"a": [("de", "en")], "b": [("fr", "es")]}, "en", "no model translates from it"),
    ({"a": [("en", "de")]}, "en", "no model translates into it"),
    ({"a": [("de", "en")]}, "fr", "no model translates into or from it"),
    ({"a": [("de", "en"), ("en", "es"), ("de", "es")]}, "en", "models translate all pairs directly"),
    ({"a": [("de", "en"), ("en", "de")]}, "en", "models translate all pairs directly"),
])  # fmt: skip
def test_third_language_that_adds_nothing_is_an_error(pairs, via, why):
    with pytest.raises(InputError, match=f"^--via {via} adds no pair: {why}. The models translate "):
        catalog(pairs, via)


def test_processes_do_each_step_as_the_pipeline_does_both(saved_model, saved_backward):
    for folder, pair in ((saved_model, ("es", "en")), (saved_backward, ("en", "de"))):
        config = AutoConfig.from_pretrained(folder)
        config.source_language, config.target_language = pair
        config.save_pretrained(folder)
    first, second = (
        ModelTranslator(str(folder), "torch", keep=["placeholder"]) for folder in (saved_model, saved_backward)
    )
    texts, terms = ("w1 w2\x85w7 {a}", "w4 w5"), (Glossary.of({"w1": "w30"}), Glossary(()))

    async def run():
        firsts = await first.translate(Chunk(texts, glossaries=terms, is_first_step=True))
        sentences = [sentence for own in firsts.translations for sentence in own.sentences]
        chunk = Chunk(
            tuple(sentence.text for sentence in sentences),
            glossaries=tuple(sentence.terms for sentence in sentences),
            kept=tuple(sentence.kept for sentence in sentences),
        )
        return firsts, sentences, await second.translate(chunk)

    firsts, sentences, seconds = asyncio.run(run())
    names = {"model": str(saved_model), "second_model": str(saved_backward), "engine": "torch"}
    chain = pipeline("translation", **names, num_beams=1, keep=["placeholder"])
    wanted = chain(list(texts), terms=[{"w1": "w30"}, None])
    assert [own.hypotheses[0] for own in firsts.translations] == [each["pivot_text"] for each in wanted]
    assert [sentence.kept for sentence in sentences] == [(), ("{a}",), ()]
    found = [one.hypotheses[0] for one in seconds.translations]
    assert found[2] == wanted[1]["translation_text"]
    assert "w30" in found[0].split() and "{a}" in found[1]
