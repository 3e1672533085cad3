"""What prevents a run from being uploaded is reported before any work, together with all other errors."""

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.hub.repository import open_repository
from hf_vaswani.training.train import train

PUSH = ("--push_to_hub=true", "--hub_model_id=you/de-en")


def error_lines(recipe, *options: str) -> list[str]:
    with pytest.raises(InputError) as error:
        train(recipe(*options))
    return str(error.value).splitlines()


def test_missing_repository_is_created_with_its_branch_before_the_first_step(hub_here, recipe, monkeypatch):
    monkeypatch.setattr("hf_vaswani.training.train.build", Stopped.stop)
    with pytest.raises(Stopped):
        train(recipe(*PUSH, "--hub_private_repo=true", "--hub_revision=draft"))
    assert hub_here.repositories == {"you/de-en": {"main": {}, "draft": {}}} and hub_here.private["you/de-en"]


class Stopped(Exception):
    @classmethod
    def stop(cls, *_):
        raise cls


@pytest.mark.parametrize(
    ("name", "token", "message"),
    [
        ("you/de-en", None, "No Hub token was found. Log in with: hf auth login"),
        ("you/de-en", "wrong", "the Hub does not accept the token"),
        ("de-en", "wrong", "the Hub does not accept the token"),
        ("you/de-en", "reader", "the token may not write there"),
        ("you/of-others", "reader", "the token may not write there"),
        ("nobody/de-en", "writer", "the token may not write there"),
        ("nobody/text", "writer", "nobody/text is a dataset on the Hub, not a model. Choose another name"),
        ("a/b/c", "writer", "'a/b/c' is not a valid repository name, such as you/de-en"),
        ("you/de--en", "writer", "'you/de--en' is not a valid repository name, such as you/de-en"),
    ],
)
def test_each_rejection_by_the_hub_is_one_error_before_any_work(
    hub_here, recipe, monkeypatch, name, token, message, tmp_path
):
    hub_here.repositories["you/of-others"] = {"main": {"README.md": b"old"}}
    hub_here.others["nobody/text"] = "dataset"
    if token is None:
        monkeypatch.delenv("HF_TOKEN")
    else:
        monkeypatch.setenv("HF_TOKEN", token)
    [error] = error_lines(recipe, "--push_to_hub=true", f"--hub_model_id={name}")
    assert error.startswith(f"training.push_to_hub (training.hub_model_id={name}): ") and message in error
    assert hub_here.commits == 0 and set(hub_here.repositories) == {"you/of-others"}
    assert not (tmp_path / "out").exists()


def test_offline_mode_is_one_error(recipe):
    [error] = error_lines(recipe, *PUSH)
    assert "HF_HUB_OFFLINE is set" in error


def test_unreachable_hub_is_one_error(hub_here, recipe, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    [error] = error_lines(recipe, *PUSH)
    assert "Connection refused" in error and "Try again" in error


def test_folder_name_that_is_no_valid_repository_name_is_an_error_with_the_key_to_set(hub_here, recipe):
    with pytest.raises(InputError, match=r"training.hub_model_id=my model\): 'my model' is not a valid"):
        train(recipe("--push_to_hub=true", output="my model"))


def test_no_repository_is_created_if_there_are_other_errors_and_all_are_reported(hub_here, recipe, monkeypatch):
    other, missing = error_lines(recipe, *PUSH, "--report_to=nothing", "--train_source=absent.de")
    assert "absent.de" in other and "training.report_to" in missing
    assert hub_here.repositories == {}
    monkeypatch.setenv("HF_TOKEN", "wrong")
    errors = error_lines(recipe, *PUSH, "--report_to=nothing")
    assert len(errors) == 2 and "does not accept the token" in errors[1]


def test_model_and_dataset_can_have_the_same_name(hub_here):
    hub_here.others["you/de-en"] = "dataset"
    assert open_repository("you/de-en") == "you/de-en"
    assert hub_here.others == {"you/de-en": "dataset"} and "you/de-en" in hub_here.repositories


def test_upload_keys_without_an_upload_are_an_error_as_options_and_a_warning_in_a_file(recipe, tmp_path, capsys):
    with pytest.raises(InputError, match="--hub_model_id, --hub_strategy: no effect without --push_to_hub true"):
        recipe("--hub_model_id=you/de-en", "--hub_strategy=end")
    path = tmp_path / "recipe.yaml"
    path.write_text(path.read_text().replace("max_steps: 12", "max_steps: 2, hub_model_id: you/de-en"))
    train(recipe())
    assert "warning: no effect without training.push_to_hub: training.hub_model_id" in capsys.readouterr().out


def test_adapter_whose_base_is_not_on_the_hub_is_rejected_before_any_work(hub_here, recipe, saved_model):
    pytest.importorskip("peft")
    errors = error_lines(recipe, *PUSH, f"--start_from={saved_model}", "--r=2", "--target_modules=q_proj")
    assert [error for error in errors if "is not on the Hub. Push that model" in error]
    assert hub_here.repositories == {}
