"""Models of transformers' other classes are fine-tuned as they are, and stay what they were."""

import json
import weakref

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.models import model_files
from hf_vaswani.training import build, check, export
from hf_vaswani.training.checkpoints.artifacts import RECIPE_FILE
from hf_vaswani.training.checkpoints.checkpoint import weights_file
from hf_vaswani.training.loop import run_steps
from hf_vaswani.training.optimization.progress import StepListener
from hf_vaswani.training.setup import inputs, memory
from hf_vaswani.training.setup.inputs import open_model
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from ..families import FAMILIES, LANGUAGES, family, only_words
from .helpers import same_weights
from .test_resume import kill_at_random_moments
from .test_trainer import assert_same_run

OTHERS = [name for name in FAMILIES if name != "Vaswani"]
# The slowest first: every kind of tokenizer, and of what a decoder starts with.
EACH_KIND = [
    name if name in ("NLLB", "mBART", "T5", "Marian") else pytest.param(name, marks=pytest.mark.slow)
    for name in OTHERS
]
STEPS = ("--max_steps=4", "--save_steps=2", "--eval_steps=2", "--max_length=40", "--eval_sentences=2")


@pytest.fixture
def start(tmp_path):
    """Saves a small random model, and returns its folder."""

    def save(name, **changes):
        folder = tmp_path / "start"
        folder.mkdir()
        for part in family(name, tmp_path, **changes):
            part.save_pretrained(folder)
        return folder

    return save


@pytest.fixture
def tuned(recipe, start):
    """Loads a recipe that fine-tunes a model."""

    def load(name, *options, **changes):
        folder = start(name, **changes)
        languages = zip(("source", "target"), LANGUAGES.get(name, ()))
        given = [f"--{side}_language={code}" for side, code in languages]
        return lambda *more, output="out": recipe(
            f"--start_from={folder}", *given, *STEPS, *options, *more, output=output
        )

    return load


@pytest.mark.parametrize("name", EACH_KIND)
def test_loop_trainer_and_a_resumed_run_take_the_same_steps(tuned, name):
    load = tuned(name, "--label_smoothing=0.1", "--max_tokens=60", "--gradient_accumulation_steps=2")
    whole = train(load(output="whole"))
    train(load("--max_steps=2", output="parts"))
    resumed = train(load(output="parts"))
    assert same_weights(resumed.folder, whole.folder)
    by_trainer = train_with_trainer(load(output="trainer"))
    assert_same_run(by_trainer.folder, whole.folder)


@pytest.mark.parametrize("name", EACH_KIND)
def test_tuned_model_keeps_class_and_files_and_translates_everywhere(tuned, name, tmp_path):
    report = train(tuned(name, "--average_last=1", "--keep_best=0")())
    folder, start = report.folder, tmp_path / "start"
    before, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(start), AutoTokenizer.from_pretrained(start)
    after, tuned_tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert (type(after), type(tuned_tokenizer)) == (type(before), type(tokenizer))
    assert tuned_tokenizer.get_vocab() == tokenizer.get_vocab()
    assert json.loads((folder / "config.json").read_text())["architectures"] == [type(before).__name__]
    assert f"It is a `{type(before).__name__}`" in (folder / "README.md").read_text()
    assert "fine-tuned from start" in (folder / "README.md").read_text()
    # The last checkpoint's weights in the model that the run started from.
    last = load_file(weights_file(folder / "checkpoints" / "update-00000004"))
    assert not before.load_state_dict(last, strict=False).unexpected_keys
    inputs = tuned_tokenizer(["ein hund läuft", "katze"], text_target=["die katze", "haus"], padding=True)
    inputs = {key: torch.tensor(value) for key, value in inputs.items() if key != "token_type_ids"}
    with torch.no_grad():
        assert torch.equal(after.eval()(**inputs).logits, before.eval()(**inputs).logits)
    expected = (folder / "test_translations.txt").read_text()
    sources = (tmp_path / "test.x").read_text().splitlines()
    translator = pipeline("translation", model=str(folder))
    found = [result["translation_text"] for result in translator(sources)]
    assert [" ".join(text.split()) for text in found] == [" ".join(line.split()) for line in expected.splitlines()]
    output = tmp_path / "output"
    assert main(["translate", str(folder), "--input", str(tmp_path / "test.x"), "--output", str(output)]) == 0
    assert output.read_text() == expected


@pytest.mark.parametrize("name", ["M2M100", *(pytest.param(name, marks=pytest.mark.slow) for name in ("T5", "mBART"))])
def test_adapter_is_trained_loaded_and_merged(tuned, name, tmp_path):
    pytest.importorskip("peft")
    load = tuned(name, "--r=2", "--learning_rate=0.1", "--average_last=1", "--keep_best=0")
    folder = train(load()).folder
    assert (folder / "adapter_model.safetensors").exists() and not (folder / "model.safetensors").exists()
    output = tmp_path / "output"
    assert main(["translate", str(folder), "--input", str(tmp_path / "test.x"), "--output", str(output)]) == 0
    assert output.read_text() == (folder / "test_translations.txt").read_text()
    adapted = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "start").eval()
    ids = torch.tensor([[5, 6, 7, 2]])
    before = adapted(input_ids=ids, labels=ids).logits
    adapted.load_adapter(str(folder))
    after = adapted(input_ids=ids, labels=ids).logits
    merged = AutoModelForSeq2SeqLM.from_pretrained(train(load("--merge=true")).folder).eval()
    torch.testing.assert_close(after, merged(input_ids=ids, labels=ids).logits, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(after, before, atol=0.1)


@pytest.mark.parametrize(
    ("name", "cut", "size"),
    [("NLLB", (), 240), ("NLLB", ("--keep_languages=deu_Latn,gn",), 36), ("mBART", (), None)],
)
def test_run_with_an_added_language_resumes_exactly_and_translates_into_it(tuned, tmp_path, name, cut, size):
    source, like = LANGUAGES[name]
    load = tuned(name, "--add_language=gn", f"--like={like}", "--target_language=gn", *cut)
    whole = train(load(output="whole")).folder
    train(load("--max_steps=2", output="parts"))
    parts = train(load(output="parts")).folder
    assert same_weights(parts, whole)
    output = tmp_path / "output"
    for languages in ([f"--source_language={source}", "--target_language=gn"], []):
        command = ["translate", str(whole), "--input", str(tmp_path / "test.x"), "--output", str(output), *languages]
        assert main([*command, "--overwrite"]) == 0
        assert output.read_text() == (whole / "test_translations.txt").read_text()
    before = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "start").config.vocab_size
    assert AutoModelForSeq2SeqLM.from_pretrained(whole).config.vocab_size == (size or before + 1)


def test_what_the_recipes_file_sets_for_models_of_this_package_is_left_out(start, recipe, tmp_path, capsys):
    folder, path = start("Bart"), tmp_path / "recipe.yaml"
    sections = yaml.safe_load(path.read_text())
    sections["evaluation"] = {**sections.get("evaluation", {}), "attention": 1}
    sections["augmentation"] = {"placeholders": 0.1}
    sections.setdefault("training", {})["guided_alignment"] = 0.3
    path.write_text(yaml.safe_dump(sections))
    train(recipe(f"--start_from={folder}", *STEPS))
    lines = [line for line in capsys.readouterr().out.splitlines() if " is left out, since " in line]
    keys = ["augmentation.placeholders=0.1", "training.guided_alignment=0.3", "evaluation.attention=1"]
    assert [line.split()[0] for line in lines] == keys
    assert yaml.safe_load((tmp_path / "out" / RECIPE_FILE).read_text())["augmentation"]["placeholders"] == 0
    # What is chosen for this model stays an error.
    message = r"^evaluation.attention=1 needs a model of this package[^\n]*$"
    with pytest.raises(InputError, match=message):
        train(recipe(f"--start_from={folder}", *STEPS, "--attention=1", output="given"))


def test_run_whose_weights_fit_is_not_refused_at_its_end_for_memory(tuned, monkeypatch):
    used = []
    monkeypatch.setattr(memory, "free_memory", lambda: 10**12)
    monkeypatch.setattr(model_files, "free_memory", lambda: 10**12)

    class Last(StepListener):
        def on_step_end(self, result):
            used.append(result)
            monkeypatch.setattr(model_files, "free_memory", lambda: 0)

    assert train(tuned("Bart")(), listeners=[Last()]) and used


def test_cut_model_is_what_must_fit_into_memory(tuned, monkeypatch):
    sizes = []
    monkeypatch.setattr(memory, "free_memory", lambda: 10**12)
    count = lambda recipe, model, *rest: sizes.append(model.config.vocab_size) or []  # noqa: E731
    for module in (build, check):
        monkeypatch.setattr(module, "training_memory_errors", count)
    train(tuned("NLLB", "--keep_languages=deu_Latn,eng_Latn")())
    assert sizes == [36]


def test_no_second_model_and_no_optimizer_is_in_memory_when_a_model_is_opened(tuned, monkeypatch):
    first, optimizers, alive = [], [], []

    def of_check(*arguments):
        model = open_model(*arguments)
        first.append(weakref.ref(model))
        return model

    def noted(make, refs):
        return lambda *arguments: alive.append([ref() is not None for ref in refs]) or make(*arguments)

    def steps(run):
        optimizers.append(weakref.ref(run.optimizer))
        run_steps(run)

    monkeypatch.setattr(inputs, "open_model", of_check)
    monkeypatch.setattr(build, "open_model", noted(open_model, first))
    monkeypatch.setattr(export, "FinalModel", noted(export.FinalModel, optimizers))
    train(tuned("NLLB", "--keep_languages=deu_Latn,eng_Latn")(), steps)
    assert alive == [[False], [False]]


def test_opus_model_of_several_targets_needs_one_unless_texts_have_marks(recipe, start, tmp_path):
    folder = start("Marian")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    unused = [token for token in vocabulary if token.isalpha()][:2]
    for token, code in zip(unused, (">>fr<<", ">>es<<")):
        vocabulary[code] = vocabulary.pop(token)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    message = "This model translates into several languages: es, fr. Choose one with data.target_language"
    with pytest.raises(InputError, match=message):
        train(recipe(f"--start_from={folder}", *STEPS))
    train(recipe(f"--start_from={folder}", *STEPS, "--target_language=fr", output="named"))
    for split in ("train", "validation", "test"):
        path = tmp_path / f"{split}.x"
        path.write_text("".join(f">>fr<< {line}\n" for line in path.read_text().splitlines()))
    train(recipe(f"--start_from={folder}", *STEPS, output="marked"))


def test_interrupted_run_gives_its_model_in_the_way_that_errors_name(tuned, tmp_path, capsys):
    load = tuned("Bart")
    folder = train(load()).folder
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    checkpoint = folder / "checkpoints" / "update-00000004"
    new = ["--output", str(tmp_path / "new")]
    for command in (["translate", str(folder), "--input", str(tmp_path / "test.x")], ["average", str(folder)]):
        assert main([*command, *new]) == 2
        assert "its hf-vaswani train command with --max_steps 1 saves the model" in capsys.readouterr().err
    assert main(["average", str(checkpoint), *new]) == 2
    assert AutoModelForSeq2SeqLM.from_pretrained(train(load("--max_steps=1")).folder)


def test_tuned_mbart_translates_into_its_other_languages(tuned):
    folder = train(tuned("mBART")()).folder
    translator = pipeline("translation", model=str(folder))
    model, tokenizer = translator.model, translator.tokenizer
    tokenizer.src_lang = "de_DE"
    encoded = tokenizer("ein hund läuft", return_tensors="pt")
    french, word = tokenizer.convert_tokens_to_ids(["fr_XX", "▁die"])
    assert model.generation_config.decoder_start_token_id == tokenizer.convert_tokens_to_ids("en_XX")
    search = {"max_new_tokens": 6, **only_words("mBART", tokenizer)}
    for prefixes, begun in (({}, [french]), ({"prefixes": ["die"]}, [french, word])):
        start = {"decoder_input_ids": torch.tensor([begun]), "decoder_start_token_id": french}
        expected = model.generate(**encoded, **start, **search)
        [found] = translator(["ein hund läuft"], src_lang="de_DE", tgt_lang="fr_XX", **prefixes, **search)
        assert found["translation_text"] == tokenizer.decode(expected[0], skip_special_tokens=True)


@pytest.mark.slow
def test_killed_run_resumes_bit_for_bit(tuned, recipe, tmp_path):
    load = tuned("M2M100", "--max_steps=60", "--save_steps=3")
    whole = train(load(output="whole")).folder
    options = [f"--start_from={tmp_path / 'start'}", "--source_language=de", "--target_language=en", *STEPS]
    options += ["--max_steps=60", "--save_steps=3"]
    assert kill_at_random_moments(recipe, tmp_path / "parts", 2, options)
    assert same_weights(train(load(output="parts")).folder, whole)
