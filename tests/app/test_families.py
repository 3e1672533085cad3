"""The page with models of all families: multilingual models, T5 with its prefixes, and exports to other engines."""

from threading import RLock

import pytest

from hf_vaswani.app.figures import AttentionView, search_figure
from hf_vaswani.app.models import Languages, LoadedModel
from hf_vaswani.app.translate import translate_text
from hf_vaswani.app.views import linked_text
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.errors import InputError
from hf_vaswani.models.load import load
from hf_vaswani.translator.pipeline import TranslationPipeline

from ..conftest import tiny_model
from ..families import FAMILIES, family, languages

TEXT = "ein hund läuft. die katze schläft."


@pytest.mark.parametrize("name", FAMILIES)
def test_models_of_all_families_translate_with_links_and_attention(name, tmp_path):
    model, tokenizer = family(name, tmp_path)
    model.generation_config.update(max_new_tokens=6, num_beams=2)
    loaded, given = LoadedModel(name, model, tokenizer, RLock()), languages(name)
    assert bool(loaded.choices.sources) == bool(given)
    chosen = Languages(given.get("src_lang"), given.get("tgt_lang"))
    assert not given or {chosen.source, chosen.target} <= {*loaded.choices.sources, *loaded.choices.targets}
    [*_, done] = translate_text(loaded, TEXT, chosen, n_best=2)
    translator = TranslationPipeline(model, tokenizer=tokenizer, **given)
    expected = [translator(text)[0]["translation_text"].strip() for text in ("ein hund läuft.", "die katze schläft.")]
    assert done.text == " ".join(filter(None, expected))
    assert done.has_links and isinstance(linked_text(tokenizer, done), str)
    attention = AttentionView().attention(loaded, "ein hund läuft.", None, chosen)
    assert attention.translation.strip() == expected[0]
    if name == "Vaswani":
        assert "<svg" in search_figure(loaded, "ein hund", 2)
    else:
        with pytest.raises(InputError, match="cannot be recorded"):
            search_figure(loaded, "ein hund", 2)


@pytest.mark.parametrize(("to", "library"), [("ctranslate2", "ctranslate2"), ("onnx", "onnxruntime")])
def test_exports_to_other_engines_translate(to, library, tmp_path, tokenizer):
    pytest.importorskip(library)
    model = tiny_model()
    model.generation_config.max_new_tokens = 5
    export_model(model, tokenizer, tmp_path / "export", to=to)
    loaded = LoadedModel("export", *load(str(tmp_path / "export")))
    [*_, done] = translate_text(loaded, "w1 w2. w3", n_best=2)
    expected = TranslationPipeline(model, tokenizer=tokenizer)(["w1 w2.", "w3"], num_beams=2)
    assert done.text.split() == [word for result in expected for word in result["translation_text"].split()]
    assert len(done.sentences[0].hypotheses) == 2 and not done.has_links
    with pytest.raises(InputError, match="exposes no attention"):
        AttentionView().attention(loaded, "w1", None)
