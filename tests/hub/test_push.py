"""Uploading to a Hub over HTTP; a process without the package then loads the model and translates."""

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import yaml
from huggingface_hub import snapshot_download

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.hub.push import check_adapter, check_folder, files_to_push, needed_extras
from hf_vaswani.records import EVAL_RESULTS

from .fake_hub import environment

LOAD = """
import sys
import types
sys.modules["hf_vaswani"] = None
from transformers import pipeline
translator = pipeline("translation", model="you/de-en", trust_remote_code=True, max_new_tokens=4)
print(repr(translator("w1 w2")[0]["translation_text"]))
"""


@pytest.fixture
def run_folder(saved_model):
    """The folder of a model, with files of its training run."""
    for name in ("training_recipe.yaml", "log.jsonl", "test_translations.txt", "README.md.old1", "README.md"):
        (saved_model / name).write_text("---\nlicense: mit\n---\n")
    for name in ("checkpoints", "best", "pictures"):
        (saved_model / name).mkdir()
        (saved_model / name / "file.png").write_bytes(b"content")
    return saved_model


def push_command(folder):
    return [sys.executable, "-m", "hf_vaswani", "push", str(folder), "you/de-en"]


def execute(command, hub, tmp_path):
    return subprocess.run(command, env=environment(hub, tmp_path), capture_output=True, text=True)


@pytest.mark.slow
def test_pushed_model_translates_without_the_package(hub, run_folder, tmp_path):
    pushed = execute(push_command(run_folder), hub, tmp_path)
    assert pushed.returncode == 0, pushed.stderr
    assert f"{hub.address}/you/de-en/commit/" in pushed.stdout
    files = hub.repositories["you/de-en"]["main"]
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md", "pictures/file.png"} <= files.keys()
    assert "modeling_vaswani.py" in files
    assert not [
        name for name in files if name.startswith(("checkpoints", "best", "log", "training", "test_", "README.md."))
    ]
    assert hub.commits == 1
    loaded = execute([sys.executable, "-c", LOAD], hub, tmp_path)
    assert loaded.returncode == 0, loaded.stderr
    from transformers import pipeline

    expected = pipeline("translation", model=str(run_folder), max_new_tokens=4)("w1 w2")[0]["translation_text"]
    assert loaded.stdout.strip() == repr(expected)


@pytest.mark.slow
def test_interrupted_push_leaves_the_hub_unchanged_and_a_second_one_completes_it(hub_here, run_folder, tmp_path):
    hub_here.repositories["you/de-en"] = {"main": {"README.md": b"old"}}
    hub_here.holds_commits = True
    pushing = subprocess.Popen(push_command(run_folder), env=environment(hub_here, tmp_path))
    assert hub_here.held.wait(60)
    pushing.kill()
    pushing.wait()
    assert hub_here.repositories["you/de-en"]["main"] == {"README.md": b"old"}
    hub_here.holds_commits = False
    assert main(["push", str(run_folder), "you/de-en"]) == 0
    assert "model.safetensors" in hub_here.repositories["you/de-en"]["main"]


def test_new_repository_is_private_on_request_and_the_branch_is_created(hub_here, run_folder):
    assert main(["push", str(run_folder), "you/de-en", "--private", "--revision", "draft"]) == 0
    assert hub_here.private["you/de-en"]
    assert "model.safetensors" in hub_here.repositories["you/de-en"]["draft"]
    assert hub_here.repositories["you/de-en"]["main"] == {}


@pytest.mark.parametrize(("token", "message"), [("wrong", "does not accept the token"), ("reader", "write access")])
def test_hub_error_says_what_to_do(hub_here, run_folder, monkeypatch, capsys, token, message):
    monkeypatch.setenv("HF_TOKEN", token)
    assert main(["push", str(run_folder), "you/de-en"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_unreachable_hub_is_one_error(hub_here, run_folder, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert main(["push", str(run_folder), "you/de-en"]) == 2
    error = capsys.readouterr().err
    assert "stays as it was" in error and error.count("\n") == 1


def test_incomplete_model_folder_is_rejected_before_contacting_the_hub(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    assert main(["push", str(tmp_path), "you/de-en"]) == 2
    error = capsys.readouterr().err
    assert "no weights" in error and "no tokenizer" in error


def test_offline_mode_and_bad_names_are_one_error_each(saved_model, capsys):
    assert main(["push", str(saved_model), "you/de-en"]) == 2
    assert "HF_HUB_OFFLINE" in capsys.readouterr().err
    assert main(["push", str(saved_model), "a/b/c"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
def test_damaged_settings_are_not_pushed(hub_here, run_folder, capsys, name):
    (run_folder / name).write_text("{")
    assert main(["push", str(run_folder), "you/de-en"]) == 2
    assert f"error: {run_folder / name} cannot be read: it is not JSON" in capsys.readouterr().err
    assert not hub_here.repositories


def test_training_files_are_not_pushed(run_folder):
    for name in (".file.png", "notes.txt"):
        (run_folder / "pictures" / name).write_text("private")
    names = set(files_to_push(run_folder))
    assert "pictures/file.png" in names
    assert not names & {"pictures/.file.png", "pictures/notes.txt"}
    assert not names & {"log.jsonl", "training_recipe.yaml", "test_translations.txt", "checkpoints/file.png"}


def test_scores_for_leaderboards_are_pushed(run_folder):
    (run_folder / EVAL_RESULTS).parent.mkdir()
    for name in (EVAL_RESULTS, ".eval_results/notes.yaml"):
        (run_folder / name).write_text("[]")
    assert [name for name in files_to_push(run_folder) if name.startswith(".")] == [EVAL_RESULTS]


def test_files_that_are_no_part_of_a_model_are_not_pushed(run_folder):
    private = {"notes.txt", "nohup.out", "train.de.gz", "train.de", "optimizer.bin", "training_args.bin"}
    private |= {"api_keys.json", "customers.bin", "clean.py", "notes.md", "db_config.json"}
    for name in private:
        (run_folder / name).write_text("private")
    (run_folder / "LICENSE").write_text("MIT")
    names = set(files_to_push(run_folder))
    assert not names & private and {"LICENSE", "model.safetensors", "tokenizer.json", "README.md"} <= names


def test_weights_of_an_earlier_model_do_not_remain_beside_the_new_ones(hub_here, run_folder):
    earlier = {
        "adapter_config.json", "adapter_model.safetensors", "model-00001-of-00002.safetensors",
        "model.safetensors.index.json", "onnx/decoder_model_merged.onnx", "model.bin", "pictures/old.png",
        EVAL_RESULTS,
    }  # fmt: skip
    kept = {"last-checkpoint/model.safetensors", "other.txt", "data/model.json"}
    hub_here.repositories["you/de-en"] = {"main": dict.fromkeys(earlier | kept, b"earlier")}
    assert main(["push", str(run_folder), "you/de-en"]) == 0
    files = hub_here.repositories["you/de-en"]["main"]
    assert not earlier & files.keys() and kept <= files.keys()
    assert hub_here.commits == 1


def test_adapter_is_pushed_only_if_its_base_is_surely_on_the_hub(tmp_path, monkeypatch):
    (tmp_path / "you" / "base").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"base_model_name_or_path": "you/base"}')
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match="may be the folder .*you/base or a model on the Hub"):
        check_adapter(tmp_path / "adapter")
    (tmp_path / "you" / "base").rename(tmp_path / "you" / "copy")
    check_adapter(tmp_path / "adapter")
    (tmp_path / "adapter" / "adapter_config.json").write_text(f'{{"base_model_name_or_path": "{tmp_path}/you/base"}}')
    with pytest.raises(InputError, match="is not on the Hub"):
        check_adapter(tmp_path / "adapter")


def broken_connection(**_):
    raise ConnectionResetError(104, "Connection reset by peer")


def test_weights_uploaded_by_an_interrupted_push_are_not_sent_again(hub_here, run_folder, monkeypatch):
    size = (run_folder / "model.safetensors").stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub._commit_api._send_commit", broken_connection)
        assert main(["push", str(run_folder), "you/de-en"]) == 2
    assert hub_here.repositories["you/de-en"]["main"] == {} and hub_here.received == size
    assert main(["push", str(run_folder), "you/de-en"]) == 0
    assert hub_here.received == size
    assert set(hub_here.repositories["you/de-en"]["main"]) == set(files_to_push(run_folder))


@pytest.mark.parametrize("is_private", [False, True])
def test_existing_repository_keeps_its_visibility_and_files(hub_here, run_folder, is_private):
    hub_here.repositories["you/de-en"] = {"main": {"README.md": b"old", "other.txt": b"kept"}}
    hub_here.private["you/de-en"] = is_private
    options = [] if is_private else ["--private"]
    assert main(["push", str(run_folder), "you/de-en", *options]) == 0
    assert hub_here.private["you/de-en"] is is_private
    files = hub_here.repositories["you/de-en"]["main"]
    assert files["other.txt"] == b"kept" and files["README.md"] == (run_folder / "README.md").read_bytes()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("our-lab/open", "the token may not write there"),
        ("our-lab/secret", "the token may not write there"),
        ("our-lab/absent", "the token may not write there"),
        ("our-lab/text", "our-lab/text is a dataset on the Hub, not a model"),
    ],
)
def test_repository_of_another_owner_is_rejected_and_untouched(
    hub_here, run_folder, monkeypatch, capsys, name, message
):
    hub_here.repositories |= {"our-lab/open": {"main": {}}, "our-lab/secret": {"main": {}}}
    hub_here.private["our-lab/secret"] = True
    hub_here.others["our-lab/text"] = "dataset"
    monkeypatch.setenv("HF_TOKEN", "reader")
    assert main(["push", str(run_folder), name]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert set(hub_here.repositories) == {"our-lab/open", "our-lab/secret"} and hub_here.commits == 0


def test_dataset_of_the_same_name_is_untouched(hub_here, run_folder):
    hub_here.others["you/de-en"] = "dataset"
    assert main(["push", str(run_folder), "you/de-en"]) == 0
    assert hub_here.others == {"you/de-en": "dataset"}
    assert "model.safetensors" in hub_here.repositories["you/de-en"]["main"]


def test_missing_token_error_says_how_to_log_in(hub_here, run_folder, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(["push", str(run_folder), "you/de-en"]) == 2
    assert "Log in with: hf auth login" in capsys.readouterr().err


def test_push_is_one_commit_for_any_number_of_files(hub_here, run_folder):
    for number in range(300):
        (run_folder / "pictures" / f"{number}.png").write_bytes(b"%d" % number)
    assert main(["push", str(run_folder), "you/de-en"]) == 0
    assert hub_here.commits == 1
    assert len(hub_here.repositories["you/de-en"]["main"]) > 300


def test_space_is_pushed_along_with_the_model_and_serves_it_by_its_id(hub_here, run_folder, capsys):
    assert main(["push", str(run_folder), "you/de-en", "--space", "you/try"]) == 0
    assert "the Space you/try" in capsys.readouterr().out
    assert hub_here.kinds["you/try"] == ("space", "gradio") and hub_here.kinds["you/de-en"] == ("model", None)
    files = {name: content.decode() for name, content in hub_here.repositories["you/try"]["main"].items()}
    assert set(files) == {"app.py", "requirements.txt", "README.md"}
    assert files["requirements.txt"] == "hf-vaswani[app]\n"
    metadata = yaml.safe_load(files["README.md"].split("---")[1])
    assert (metadata["sdk"], metadata["app_file"], metadata["models"]) == ("gradio", "app.py", ["you/de-en"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", metadata["sdk_version"])
    # Run the app with a stub that only records the model it is asked for.
    asked = []
    app = types.ModuleType("hf_vaswani.app")
    app.launch = asked.append
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "hf_vaswani.app", app)
        exec(compile(files["app.py"], "app.py", "exec"), {})
    assert asked == ["you/de-en"]


def test_space_of_an_adapter_installs_peft(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    assert needed_extras(tmp_path) == ["app", "peft"]


def test_invalid_space_is_rejected_before_anything_is_uploaded(hub_here, run_folder, capsys):
    assert main(["push", str(run_folder), "you/de-en", "--revision", "draft", "--space", "you/try"]) == 2
    assert "Leave out --revision, or --space." in capsys.readouterr().err
    assert hub_here.repositories == {}
    assert main(["push", str(run_folder), "you/de-en", "--space", "others/try"]) == 2
    assert hub_here.repositories == {"you/de-en": {"main": {}}}


@pytest.mark.parametrize("name", ["model.safetensors", "pictures", "pictures/file.png", "photo.png"])
def test_file_behind_a_link_to_elsewhere_is_not_uploaded(hub_here, run_folder, tmp_path, capsys, name):
    path, elsewhere = run_folder / name, tmp_path / "elsewhere"
    if path.exists():
        path.rename(elsewhere)
    else:
        elsewhere.write_bytes(b"mine")
    path.symlink_to(elsewhere)
    assert main(["push", str(run_folder), "you/de-en"]) == 2
    error = capsys.readouterr().err
    assert f"{path}" in error and "points outside" in error and error.count("\n") == 1
    assert "you/de-en" not in hub_here.repositories


def test_folder_of_links_into_the_cache_is_uploaded(hub_here, run_folder, tmp_path):
    assert main(["push", str(run_folder), "you/de-en"]) == 0
    snapshot = Path(snapshot_download("you/de-en"))
    assert (snapshot / "model.safetensors").is_symlink()
    assert main(["push", str(snapshot), "you/copy"]) == 0
    assert hub_here.repositories["you/copy"]["main"] == hub_here.repositories["you/de-en"]["main"]


def test_files_linked_within_the_folder_are_uploaded(hub_here, run_folder):
    (run_folder / "cover.png").symlink_to("pictures/file.png")
    assert main(["push", str(run_folder), "you/de-en"]) == 0
    assert hub_here.repositories["you/de-en"]["main"]["cover.png"] == b"content"


@pytest.mark.parametrize("page", ["{}", '{"files": [1]}', '{"files": null}'])
def test_page_without_a_list_of_files_is_one_error(tmp_path, page):
    (tmp_path / "page.json").write_text(page)
    (tmp_path / "index.html").touch()
    with pytest.raises(InputError, match=r"page\.json: files is"):
        check_folder(tmp_path)


@pytest.mark.slow
def test_pushed_handler_translates_without_this_package(hub_here, run_folder, tmp_path):
    assert main(["push", str(run_folder), "you/de-en", "--handler"]) == 0
    files = hub_here.repositories["you/de-en"]["main"]
    folder = tmp_path / "endpoint"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from handler import EndpointHandler
print(EndpointHandler(sys.argv[1])({"inputs": ["w1 w2", "w3"], "parameters": {"max_new_tokens": 4}}))
print("hf_vaswani" in sys.modules)
"""
    done = execute([sys.executable, "-c", code, str(folder)], hub_here, tmp_path)
    assert done.returncode == 0, done.stderr
    from transformers import pipeline

    expected = pipeline("translation", model=str(run_folder))(["w1 w2", "w3"], max_new_tokens=4)
    assert done.stdout.splitlines()[-2:] == [repr(expected), "False"]


def test_handler_of_an_export_is_refused(tmp_path, capsys):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "you/de-en"}')
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    assert main(["push", str(tmp_path), "you/de-en", "--handler"]) == 2
    assert "--handler" in capsys.readouterr().err
