"""What a product says of how it was made, and what a command finds in that."""

import json

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.ledger import Input, Provenance, is_finished, make_input, read_provenance


def model(name: str, *inputs: Input, **settings) -> Input:
    return Input(role="model", name=name, digest=f"digest of {name}",
                 made=Provenance(command="average", settings=settings, inputs=list(inputs)))  # fmt: skip


def test_provenance_is_written_beside_a_file_and_into_a_folder(tmp_path):
    made = Provenance(command="translate", settings={"num_beams": 5}, inputs=[model("first")], seconds=2.5)
    pairs, folder = tmp_path / "pairs.jsonl.gz", tmp_path / "run"
    pairs.write_text("")
    folder.mkdir()
    for product, file in ((pairs, tmp_path / "pairs.jsonl.gz.provenance.json"), (folder, folder / "provenance.json")):
        made.write(product)
        assert json.loads(file.read_text())["settings"] == {"num_beams": 5}
        assert read_provenance(product) == made
    assert read_provenance(tmp_path / "absent") is None


def test_input_is_named_without_the_folders_around_it_and_has_its_own_provenance(tmp_path):
    (tmp_path / "run").mkdir()
    made = Provenance(command="train", seconds=1.0)
    made.write(tmp_path / "run")
    found = make_input("model", tmp_path / "run", "abc")
    assert (found.name, found.digest, found.made) == ("run", "abc", made)
    assert make_input("model", "you/model", "abc").name == "you/model"


def test_earlier_products_are_listed_once_after_those_that_they_were_made_from():
    first = model("first")
    pairs = model("pairs", first)
    second = model("second", pairs, first)
    last = Provenance(command="train", inputs=[pairs, second, Input(role="data.text", name="own.txt", digest="x")])
    assert [name for name, _ in last.earlier()] == ["first", "pairs", "second"]


def test_long_chains_grow_by_one_product_each(tmp_path):
    products: list[Input] = []
    for number in range(20):  # each made from all before it, which without care would double with each
        products.append(model(f"p{number}", *products, number=number))
        made = Provenance(command="train", inputs=products).without_repetition()
        products = made.inputs
    assert [name for name, _ in made.earlier()] == [f"p{number}" for number in range(20)]
    assert [before.settings for _, before in made.earlier()] == [{"number": number} for number in range(20)]
    assert len(made.to_json()) < 40_000


def test_only_runs_on_text_alone_can_be_replayed_from_the_card_of_another():
    first = Input(role="tokenizer.path", name="first", digest="1",
                  made=Provenance(command="train", results={"trail": {}}))  # fmt: skip
    second = Input(role="data.text", name="second", digest="2",
                   made=Provenance(command="train", inputs=[first], results={"trail": {}}))  # fmt: skip
    assert [name for name, _ in Provenance(command="train", inputs=[second]).replayable()] == ["first"]


def test_finished_product_is_recognized_and_other_settings_or_inputs_are_named(tmp_path, capsys):
    product = tmp_path / "mean"
    made = Provenance(command="average", settings={"last": 2}, inputs=[model("run")], seconds=3.0)
    assert not is_finished(product, made, "Delete it.")
    product.mkdir()
    with pytest.raises(InputError, match="mean exists, and it is unknown how it was made: provenance.json"):
        is_finished(product, made, "Delete it.")
    made.write(product)
    assert is_finished(product, made.model_copy(update={"seconds": 0.0}), "Delete it.")
    assert capsys.readouterr().err == f"{product} is finished. Nothing to do.\n"
    changed = model("run").model_copy(update={"digest": "another"})
    for now, difference in (
        ({"settings": {"last": 3}}, "last was 2 and is now 3"),
        ({"settings": {}}, "last was 2 and is now None"),
        ({"inputs": [changed]}, "model run has changed"),
        ({"inputs": [model("other")]}, "model was run and is now other"),
        ({"inputs": []}, "model was run and is now none"),
    ):
        with pytest.raises(InputError) as error:
            is_finished(product, made.model_copy(update=now), "Delete it.")
        assert str(error.value) == f"{product} was made in another way: {difference}. Delete it."


def test_damaged_provenance_is_an_error_that_names_the_file(tmp_path):
    for content in ("{", "[]", '{"inputs": 3}', '{"command": 1}', '{"command": "train", "settings": {"data": 3}}'):
        (tmp_path / "provenance.json").write_text(content)
        with pytest.raises(InputError, match=r"provenance.json cannot be read: .* Delete it"):
            read_provenance(tmp_path)
