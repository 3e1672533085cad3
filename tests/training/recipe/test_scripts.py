"""The bundled scripts: the commands that they run, and that they end with the same bits wherever they are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hf_vaswani.cli import _parser, main
from hf_vaswani.commands.translate import option_errors
from hf_vaswani.commands.translate_pairs import check_pair_options
from hf_vaswani.training.recipe.bundled_recipes import bundled_scripts
from hf_vaswani.training.recipe.recipe import Recipe, load_recipe

PROJECT = Path(__file__).parents[3]
SCRIPTS = bundled_scripts()
ARGUMENTS = {"distill.sh": ("teacher", "text.jsonl"), "back_translation.sh": ("quickstart", "de:en=mono.de")}
LISTING = "import json, sys; open('commands.jsonl', 'a').write(json.dumps(sys.argv[1:]) + '\\n')"
TINY = """
data: {dataset: built-in, source_language: en, target_language: de}
tokenizer: {vocab_size: 300, joint: true}
model:
  {d_model: 16, encoder_layers: 1, decoder_layers: 1, encoder_attention_heads: 2, decoder_attention_heads: 2,
   encoder_ffn_dim: 16, decoder_ffn_dim: 16, dropout: 0.1}
training:
  {max_tokens: 300, max_steps: 12, learning_rate: 0.005, warmup_steps: 2, eval_steps: 100, eval_sentences: 0,
   save_steps: 4, save_total_limit: 30, average: last, average_last: 2, cpu_threads: 1}
generation: {num_beams: 2}
"""


def environment(**variables) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The commands that a script would run, as lists of arguments."""
    (tmp_path / "list.py").write_text(LISTING)
    monkeypatch.chdir(tmp_path)

    def run(name: str, *options, **variables) -> list[list[str]]:
        Path("commands.jsonl").unlink(missing_ok=True)
        given = environment(HF_VASWANI=f"{sys.executable} list.py", **variables)
        subprocess.run(["bash", SCRIPTS[name], *ARGUMENTS.get(name, ()), *options], env=given, check=True)
        return [json.loads(line) for line in Path("commands.jsonl").read_text().splitlines()]

    return run


def recipes(commands: list[list[str]]) -> dict[str, Recipe]:
    """The recipes of the commands that train, by the name of their folder."""
    loaded = [load_recipe(command[1], command[2:]) for command in commands if command[0] == "train"]
    return {Path(recipe.training.output_dir).name: recipe for recipe in loaded}


@pytest.mark.parametrize("name", SCRIPTS)
def test_commands_are_valid_and_read_only_what_those_before_them_made(commands, name):
    made = {argument.rpartition("=")[2] for argument in ARGUMENTS.get(name, ())}
    for command in commands(name):
        if command[0] == "train":
            recipe = load_recipe(command[1], command[2:])
            text = {*(recipe.data.text or ())} - {"own", "reversed"}
            models = {recipe.training.start_from, recipe.tokenizer.path, recipe.evaluation.rerank_with}
            read = text | (models - {None}) | {*recipe.training.teachers, *recipe.evaluation.compared}
            made.add(recipe.training.output_dir)
        else:
            options = _parser().parse_args(command)
            Path(options.pairs).parent.mkdir(parents=True, exist_ok=True)
            check_pair_options(options)
            options.format = "jsonl"
            assert option_errors(options) == []
            read = {options.model, options.input, *options.ensemble}
            made.add(options.pairs)
        assert read <= made


def test_best_model_of_multi30k_continues_on_its_own_translations(commands):
    found = recipes(commands("multi30k_best.sh", "--seed", "3"))
    assert list(found) == ["backward", "forward", "best"]
    assert [recipe.data.reversed for recipe in found.values()] == [True, False, False]
    assert [recipe.training.max_steps for recipe in found.values()] == [2000, 3600, 5500]
    assert {recipe.training.seed for recipe in found.values()} == {3}
    assert found["best"].training.start_from == "outputs/multi30k_best/forward"
    folder = "outputs/multi30k_best"
    assert found["best"].data.text == {
        "own": 5, f"{folder}/sampled.jsonl.gz": 5, f"{folder}/taught.jsonl.gz": 1,
        f"{folder}/taught_sampled.jsonl.gz": 4,
    }  # fmt: skip


def test_distilled_model_of_multi30k_learns_from_two_seeds_of_the_best_one(commands):
    best, distilled = recipes(commands("multi30k_best.sh")), recipes(commands("multi30k_distilled.sh"))
    differing = {"seed", "output_dir", "start_from", "max_steps", "average_last", "save_total_limit"}
    for seed in (1, 2):
        for name in ("forward", "best"):
            one, other = best[name], distilled[f"{name}_{seed}"]
            assert other.model == one.model and other.training.seed == seed
            assert other.training.model_dump(exclude=differing) == one.training.model_dump(exclude=differing)
            assert list((other.data.text or {}).values()) == list((one.data.text or {}).values())
    assert distilled["backward"].training == best["backward"].training.model_copy(
        update={"output_dir": "outputs/multi30k_distilled/backward"}
    )
    assert distilled["best_1"].training.max_steps == best["best"].training.max_steps / 2


def test_variables_change_folder_steps_and_search(commands):
    [backward, *_] = recipes(commands("multi30k_best.sh", OUT="here", SCALE="0.01")).values()
    assert (backward.training.output_dir, backward.training.max_steps) == ("here/backward", 20)
    Path("my.yaml").write_text(TINY)
    translate, train = commands("distill.sh", OUT="here", RECIPE="my.yaml", TRANSLATE="--n_best 4 --keep_closest bleu")
    assert translate[-4:] == ["--n_best", "4", "--keep_closest", "bleu"]
    assert load_recipe(train[1], train[2:]).model["d_model"] == 16


def test_monolingual_text_is_back_translated_by_the_model_of_the_round_before(commands):
    found = commands(
        "back_translation.sh", "en:de=mono.en", "--seed", "3", OUT="out", ROUNDS="3", TRUSTED="quickstart", WEIGHT="2",
        CONTINUE="--max_steps 7", TRANSLATE="--sample 1",
    )  # fmt: skip
    runs = recipes(found)
    assert list(runs) == ["start", "round_1", "round_2", "round_3", "trusted"]
    assert [run.training.start_from for run in runs.values()] == [
        None, "out/start", "out/round_1", "out/round_2", "out/round_3"
    ]  # fmt: skip
    assert [run.training.max_steps for run in runs.values()][1:] == [7] * 4
    assert {run.training.seed for run in runs.values()} == {3}
    assert runs["round_2"].data.text == {
        "own": None,
        "out/round_2.1.en-de.jsonl.gz": {
            "tag": "bt", "source_language": "en", "target_language": "de", "weight": 2
        },
        "out/round_2.2.de-en.jsonl.gz": {
            "tag": "bt", "source_language": "de", "target_language": "en", "weight": 2
        },
    }  # fmt: skip
    assert runs["trusted"].data.text is None
    translations = [command for command in found if command[0] == "translate"]
    assert [command[1] for command in translations] == [f"out/{run}" for run in list(runs)[:3] for _ in range(2)]
    assert translations[1][2:] == [
        "--source_language", "en", "--target_language", "de", "--input", "mono.en", "--side", "target",
        "--pairs", "out/round_1.2.de-en.jsonl.gz", "--sample", "1",
    ]  # fmt: skip


def test_trusted_text_may_come_last_without_monolingual_text(commands, monkeypatch):
    monkeypatch.setitem(ARGUMENTS, "back_translation.sh", ("quickstart",))
    runs = recipes(commands("back_translation.sh", TRUSTED="quickstart"))
    assert list(runs) == ["start", "trusted"]
    with pytest.raises(subprocess.CalledProcessError):
        commands("back_translation.sh", "mono.de")


def test_scripts_are_listed_printed_and_named_by_train(capsys):
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name}" in listed for name in SCRIPTS)
    for name, path in SCRIPTS.items():
        assert main(["recipes", name]) == 0
        assert capsys.readouterr().out == path.read_text()
        assert main(["train", name.removesuffix(".sh")]) == 2
        assert f"hf-vaswani recipes {name} > {name}; bash {name}" in capsys.readouterr().err


def start(name: str, folder: Path, *arguments, **variables) -> subprocess.Popen:
    """Start a script with a tiny recipe, in a process group of its own."""
    recipe = folder / "tiny.yaml"
    recipe.write_text(TINY)
    given = environment(RECIPE=str(recipe), HF_VASWANI=f"{sys.executable} -m hf_vaswani", **variables)
    command = ["bash", SCRIPTS[name], *map(str, arguments)]
    return subprocess.Popen(command, env=given, cwd=folder, start_new_session=True, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip


def run(name: str, folder: Path, *arguments, **variables) -> str:
    process = start(name, folder, *arguments, **variables)
    output, _ = process.communicate(timeout=3600)
    assert process.returncode == 0, output
    return output


def products(folder: Path) -> dict[Path, bytes]:
    """The weights of all models, and all pairs."""
    files = [*folder.rglob("model.safetensors"), *folder.rglob("*.jsonl.gz")]
    return {path.relative_to(folder): path.read_bytes() for path in files}


@pytest.fixture
def teacher(tmp_path) -> Path:
    recipe = tmp_path / "teacher.yaml"
    recipe.write_text(TINY)
    assert main(["train", str(recipe), "--output_dir", str(tmp_path / "teacher")]) == 0
    return tmp_path / "teacher"


@pytest.fixture
def text(tmp_path) -> Path:
    """A few pairs, so that they are translated in seconds."""
    path = tmp_path / "text.jsonl"
    pairs = [{"source": f"the {word} house", "target": f"das {word} Haus"} for word in "abcdefghijkl"]
    path.write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    return path


@pytest.mark.slow
def test_distillation_says_what_is_finished_and_which_input_has_changed(tmp_path, teacher, text):
    variables = {"OUT": "new/student", "TRANSLATE": "--sample 1 --n_best 4 --max_new_tokens 60"}
    run("distill.sh", tmp_path, teacher, text, **variables)
    before = products(tmp_path / "new")
    assert len(before) >= 2
    results = json.loads((tmp_path / "new" / "student" / "results.json").read_text())
    assert results["teacher"]["models"] == ["teacher"]
    assert [source["name"] for source in results["inputs"]] == ["student.jsonl.gz"]
    text.write_text(text.read_text().replace("a house", "one house"))
    process = start("distill.sh", tmp_path, teacher, text, **variables)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 2 and "input text.jsonl has changed" in output
    assert products(tmp_path / "new") == before


@pytest.mark.slow
def test_back_translation_killed_five_times_ends_with_the_same_bits(tmp_path):
    (tmp_path / "mono.de").write_text("das rote Haus\nder alte Mann\n" * 10)
    built_in = {split: f"{{dataset: built-in, split: {split}, both_directions: true}}" for split in ("train", "test")}
    arguments = ["tiny.yaml", "de:en=mono.de", "--dataset=null", "--validation_share=0.1"]
    arguments += [f"--{split}={text}" for split, text in built_in.items()]
    variables = {"TRUSTED": "tiny.yaml", "TRANSLATE": "--sample 1 --n_best 8"}
    run("back_translation.sh", tmp_path, *arguments, OUT="whole", **variables)
    for number in range(5):
        process = start("back_translation.sh", tmp_path, *arguments, OUT="parts", **variables)
        time.sleep(6 + 7 * number)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run("back_translation.sh", tmp_path, *arguments, OUT="parts", **variables)
    whole = products(tmp_path / "whole")
    assert len(whole) > 6 and products(tmp_path / "parts") == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi30k_best.sh", "multi30k_distilled.sh"])
def test_script_killed_five_times_ends_with_the_same_bits(tmp_path, name):
    run(name, tmp_path, OUT="whole", SCALE="0.005")
    for number in range(5):
        process = start(name, tmp_path, OUT="parts", SCALE="0.005")
        time.sleep(15 + 7 * number)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run(name, tmp_path, OUT="parts", SCALE="0.005")
    whole = products(tmp_path / "whole")
    assert whole and products(tmp_path / "parts") == whole
