"""Export to a web page: its files, what they may load, what is rejected, and the alignment from its model."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from transformers import generation as processors

from hf_vaswani.cli import main
from hf_vaswani.core.sentence_splitting import split_text
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.engines.web_page import PACKAGES
from hf_vaswani.errors import InputError
from hf_vaswani.generation.alignment import alignment_layer, forced_attentions
from hf_vaswani.models.load import load
from hf_vaswani.models.model_files import is_page
from hf_vaswani.text.normalization import BLANK
from hf_vaswani.web.files import FOLDER

from ..conftest import save_tiny_model, tiny_model
from ..core.test_modeling_vaswani import randomize
from .variants import MASK, SOURCES

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

VERSIONS = {"@huggingface/tokenizers": "0.2.99", "onnxruntime-web": "1.30.99"}


def fake_runtime(folder: Path, versions: dict[str, str] = VERSIONS) -> Path:
    """A folder `node_modules` with files that do nothing, of versions whose digests are not known."""
    for package in PACKAGES:
        for name in package.files:
            path = folder / package.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"// {package.name} {name}\n")
        about = {"name": package.name, "version": versions[package.name], "license": "MIT"}
        (folder / package.name / "package.json").write_text(json.dumps(about))
    return folder


@pytest.fixture(scope="module")
def page_once(tmp_path_factory) -> Path:
    """A page of a tiny model, exported by the command, which no test changes."""
    folder = tmp_path_factory.mktemp("page")
    saved, runtime = save_tiny_model(folder / "saved"), fake_runtime(folder / "node_modules")
    command = ["export", str(saved), str(folder / "my_page"), "--to", "web", "--runtime", str(runtime)]
    assert main([*command, "--name", "Müller & <i>Söhne"]) == 0
    return folder / "my_page"


@pytest.fixture
def page(page_once, tmp_path) -> Path:
    """A copy of that page."""
    return shutil.copytree(page_once, tmp_path / "my_page")


def test_folder_contains_page_int8_model_and_runtime(page):
    assert sorted(path.relative_to(page).as_posix() for path in page.rglob("*") if path.is_file()) == [
        "README.md", "browser.js", "icon.svg", "index.html", "manifest.webmanifest", "marks.js",
        "model/config.json", "model/generation_config.json", "model/onnx/decoder_model_merged_quantized.onnx",
        "model/onnx/encoder_model_quantized.onnx", "model/tokenizer.json", "model/tokenizer_config.json",
        "page.js", "page.json", "runtime/onnxruntime-wasm.js", "runtime/onnxruntime.js", "runtime/onnxruntime.wasm",
        "runtime/packages.json", "runtime/tokenizers.js", "search.js", "service_worker.js", "split.js", "style.css",
        "translation.js", "words.js", "worker.js",
    ]  # fmt: skip
    assert is_page(page)
    about = json.loads((page / "page.json").read_text())
    assert about["blank"] == f"^{BLANK}$"
    assert all((page / name).stat().st_size == size for name, size in about["files"].items())
    assert json.loads((page / "model/generation_config.json").read_text())["max_length_offset"] == 50
    [tokenizers, runtime] = json.loads((page / "runtime/packages.json").read_text())
    assert (tokenizers["version"], runtime["version"]) == ("0.2.99", "1.30.99")


def test_page_is_not_taken_for_a_model(page):
    with pytest.raises(InputError, match="my_page was exported for the web. Use the original model"):
        load(str(page))


def test_float32_is_written_on_request(saved_model, tmp_path):
    runtime = fake_runtime(tmp_path / "node_modules")
    command = ["export", str(saved_model), str(tmp_path / "page"), "--to", "web", "--runtime", str(runtime)]
    assert main([*command, "--quantization", "float32"]) == 0
    assert (tmp_path / "page/model/onnx/encoder_model.onnx").exists()


def test_page_may_load_nothing_from_elsewhere(page):
    policy = re.search(r'Content-Security-Policy"\s+content="([^"]+)"', (page / "index.html").read_text())[1]
    rules = {name: values for name, *values in (rule.split() for rule in policy.split(";"))}
    assert rules.pop("default-src") == ["'none'"]
    assert rules.pop("script-src") == ["'self'", "'wasm-unsafe-eval'"]
    assert rules.pop("worker-src") == ["'self'", "blob:"]
    assert {value for values in rules.values() for value in values} == {"'self'", "'none'"}
    assert rules["connect-src"] == ["'self'"]
    for path in page.iterdir():
        if path.is_file() and path.name != "README.md":
            addresses = set(re.findall(r"\bhttps?://[^\"'\s)]+|[\"'(]//\w", path.read_text()))
            assert addresses <= {"http://www.w3.org/2000/svg"}, path.name


def test_links_are_relative_and_point_to_files_of_the_page(page):
    links = re.findall(r'(?:src|href)="([^"]+)"', (page / "index.html").read_text())
    for path in page.glob("*.js"):
        links += re.findall(r'from "\./([^"]+)"', path.read_text())
    assert len(links) > 10
    assert [link for link in links if not (page / link).is_file()] == []


def test_scripts_never_set_html():
    for path in FOLDER.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text())


def test_title_and_languages_are_in_the_page(page, tmp_path, tokenizer):
    text = (page / "index.html").read_text()
    assert text.count("Müller &amp; &lt;i&gt;Söhne") == 2
    assert json.loads((page / "manifest.webmanifest").read_text())["name"] == "Müller & <i>Söhne"
    assert 'id="source"\n' in text and "{{" not in text
    model = tiny_model(source_language="ar", target_language="en")
    export_model(model, tokenizer, tmp_path / "ar", to="web", runtime=fake_runtime(tmp_path / "modules"))
    text = (tmp_path / "ar" / "index.html").read_text()
    assert 'id="source" lang="ar"' in text and 'id="translation" lang="en"' in text
    assert "<h1>ar</h1>" in text
    model = tiny_model(source_language='"><script>', target_language="en")
    export_model(model, tokenizer, tmp_path / "none", to="web", runtime=fake_runtime(tmp_path / "modules"))
    assert 'id="source"\n' in (tmp_path / "none" / "index.html").read_text()


def test_service_worker_knows_the_digests_of_all_files(page):
    text = (page / "service_worker.js").read_text()
    files = json.loads(re.search(r"const FILES = (\{.*?\});", text, re.DOTALL)[1])
    expected = {path.relative_to(page).as_posix() for path in page.rglob("*") if path.is_file()}
    assert set(files) == expected - {"README.md", "service_worker.js"}
    for name, digest in files.items():
        assert digest == "sha256-" + base64.b64encode(hashlib.sha256((page / name).read_bytes()).digest()).decode()


def test_card_describes_a_static_space(page):
    text = (page / "README.md").read_text()
    assert "\nsdk: static\n" in text and "\napp_file: index.html\n" in text
    assert "pipeline_tag" not in text
    assert "http.server" in text and "import hf_vaswani" not in text


@pytest.mark.parametrize(
    "heads", [*(pytest.param(heads, marks=pytest.mark.slow) for heads in (None, [[1, 2]])), [[0, 3], [2, 1]]]
)
def test_decoder_returns_the_attention_that_alignments_are_read_off(tokenizer, tmp_path, heads):
    model = tiny_model(decoder_layers=3, alignment_heads=heads)
    randomize(model)
    export_model(model, tokenizer, tmp_path / "page", "float32", to="web", runtime=fake_runtime(tmp_path / "modules"))
    encoder, decoder = (
        onnxruntime.InferenceSession(tmp_path / "page/model/onnx" / f"{name}.onnx")
        for name in ("encoder_model", "decoder_model_merged")
    )
    output = torch.tensor([[1, 7, 8, 9], [1, 4, 5, 6], [1, 30, 31, 32]])
    [states] = encoder.run(None, {"input_ids": SOURCES.numpy(), "attention_mask": MASK.numpy()})
    empty = torch.empty(3, 4, 0, 4).numpy()
    caches = {one.name: empty for one in decoder.get_inputs() if one.name.startswith("past")}
    inputs = {
        "input_ids": output[:, :-1].numpy(), "encoder_hidden_states": states, "encoder_attention_mask": MASK.numpy(),
    }  # fmt: skip
    [got] = decoder.run(["alignment"], {**inputs, **caches})
    cross = forced_attentions(model, {"input_ids": SOURCES, "attention_mask": MASK}, output).cross
    read = [cross[:, layer, head] for layer, head in heads] if heads else cross[:, alignment_layer(3)].unbind(1)
    torch.testing.assert_close(torch.tensor(got), torch.stack(list(read)).mean(0), atol=1e-5, rtol=0)


def test_all_problems_are_reported_together(saved_model, tmp_path, capsys):
    runtime = fake_runtime(tmp_path / "node_modules", {**VERSIONS, "onnxruntime-web": "1.10.0"})
    (runtime / "@huggingface/tokenizers/dist/tokenizers.min.mjs").unlink()
    (tmp_path / "page").mkdir()
    (tmp_path / "page/mine").write_text("")
    command = ["export", str(saved_model), str(tmp_path / "page"), "--to", "web", "--runtime", str(runtime)]
    assert main([*command, "--quantization", "int16"]) == 2
    error = capsys.readouterr().err
    for expected in (
        "--quantization int16 is for --to ctranslate2; here it is int8 or float32.",
        "page exists and is not an empty folder",
        "tokenizers has no dist/tokenizers.min.mjs. Install it with: npm install",
        "onnxruntime-web is version 1.10.0, but a web page needs 1.30.0",
    ):
        assert expected in error
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == ["mine"]


def test_runtime_option_is_only_for_web_pages_and_must_be_a_folder(saved_model, tmp_path, capsys):
    command = ["export", str(saved_model), str(tmp_path / "out"), "--runtime", str(tmp_path)]
    assert main(command) == 2
    assert "--runtime is for --to web." in capsys.readouterr().err
    assert main([*command[:-1], str(tmp_path / "nowhere"), "--to", "web"]) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err
    assert main([*command, "--to", "web"]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path} has no @huggingface/tokenizers" in error and f"{tmp_path} has no onnxruntime-web" in error
    assert not (tmp_path / "out").exists()


def test_modified_file_of_the_known_version_is_rejected(saved_model, tmp_path, capsys):
    versions = {package.name: package.version for package in PACKAGES}
    runtime = fake_runtime(tmp_path / "node_modules", versions)
    command = ["export", str(saved_model), str(tmp_path / "page"), "--to", "web", "--runtime", str(runtime)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "dist/ort-wasm-simd-threaded.wasm does not match version 1.30.0: it is damaged or was modified" in error


def test_without_folder_and_npm_the_error_says_what_to_do(saved_model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["export", str(saved_model), "page", "--to", "web"]) == 2
    error = capsys.readouterr().err
    assert "two npm packages, but npm is not installed" in error and "--runtime FOLDER" in error


def test_modules_of_the_current_folder_are_used(saved_model, tmp_path, monkeypatch):
    fake_runtime(tmp_path / "node_modules")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", None)
    assert main(["export", str(saved_model), "page", "--to", "web"]) == 0
    assert (tmp_path / "page/runtime/onnxruntime.wasm").read_text() == (
        "// onnxruntime-web dist/ort-wasm-simd-threaded.wasm\n"
    )


def test_failing_npm_is_reported_as_an_error_and_leaves_no_folder(saved_model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(npm))
    assert main(["export", str(saved_model), "page", "--to", "web"]) == 2
    assert "onnxruntime-web@1.30.0: npm error code ENOTFOUND" in capsys.readouterr().err
    assert not (tmp_path / "page").exists()


def test_model_that_transformers_js_cannot_express_is_rejected(tokenizer, tmp_path):
    model = tiny_model(activation_function="laplace")
    with pytest.raises(InputError, match="laplace"):
        export_model(model, tokenizer, tmp_path / "page", to="web", runtime=fake_runtime(tmp_path / "modules"))
    assert not (tmp_path / "page").exists()


def in_node(page: Path, rules: list[dict] = (), texts: list[str] = (), characters: int = 0) -> dict:
    """What the page's own modules return for logits and texts."""
    if not shutil.which("node"):
        pytest.skip("needs node")
    (page / "runtime/onnxruntime.js").write_text("")
    (page / "package.json").write_text('{"type": "module"}')
    modules = [page / f"{name}.js" for name in ("search", "split", "words")]
    given = json.dumps({"rules": list(rules), "texts": list(texts), "characters": characters})
    command = ["node", Path(__file__).with_name("web.mjs"), *modules]
    process = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout)


RULES = {
    "repetition": (processors.RepetitionPenaltyLogitsProcessor(1.5), {"repetition_penalty": 1.5}),
    "ngrams": (processors.NoRepeatNGramLogitsProcessor(2), {"no_repeat_ngram_size": 2}),
    "single tokens": (processors.NoRepeatNGramLogitsProcessor(1), {"no_repeat_ngram_size": 1}),
    "bad words": (
        processors.NoBadWordsLogitsProcessor([[4], [7, 5], [5, 8], [2]], eos_token_id=2),
        {"bad_words_ids": [[4], [7, 5], [5, 8], [2]]},
    ),
    "minimum length": (
        processors.MinNewTokensLengthLogitsProcessor(1, 4, torch.tensor([2]), device="cpu"), {"min_new_tokens": 4},
    ),
    "forced first token": (processors.ForcedBOSTokenLogitsProcessor(9), {"forced_bos_token_id": 9}),
    "forced last token": (processors.ForcedEOSTokenLogitsProcessor(8, 2), {"forced_eos_token_id": 2}),
    "suppressed": (processors.SuppressTokensLogitsProcessor([3, 6]), {"suppress_tokens": [3, 6]}),
    "suppressed at the beginning": (
        processors.SuppressTokensAtBeginLogitsProcessor([3, 6], 1), {"begin_suppress_tokens": [3, 6]},
    ),
}  # fmt: skip


def test_search_settings_work_as_in_transformers(page):
    logits = torch.linspace(-1, 1, 10)
    sequences = ([1], [1, 7, 5], [1, 5, 7, 5], [1, 3, 3, 3, 5, 7, 7])
    rules, expected = [], []
    for processor, settings in RULES.values():
        for ids in sequences:
            rules.append(
                {"settings": {"eos_token_id": 2, **settings}, "logits": logits.tolist(), "ids": ids, "limit": 8}
            )
            scores = processor(torch.tensor([ids]), logits[None].clone())[0]
            expected.append([None if value == -torch.inf else value for value in scores.tolist()])
    got = in_node(page, rules)["scored"]
    forced = {9, 2}
    for rule, one, other in zip(rules, got, expected, strict=True):
        # A forced token may have any score.
        if sum(value is not None for value in other) == 1:
            assert [value is None for value in one] == [value is None for value in other], rule
            assert forced & {one.index(next(value for value in one if value is not None))}
        else:
            assert [v and round(v, 5) for v in one] == [v and round(v, 5) for v in other], rule


def test_texts_are_split_as_the_pipeline_splits_them(page):
    texts = [
        "Ein Hund. Eine Katze? „Ja!“ sagt er.\nZeile zwei", "", "  \n\t \n ", "你好。再见！", "ohne Ende " * 5,
        "eins, zwei, drei und vier, fünf und sechs", "a" * 50, "x. " * 9, "Es ist z. B. so. Dr. K kommt am 3. Mai.",
        "Ja.Nein. Um 2:30. Bis 5 p.m. Ok", "Nr. 5. No. So.", "« Oui ! » Non.", "「はい。」とか。", "यह है।हाँ।",
        "i am. go!", "Was?! ... Ok", "Louis XIV. Dann.", "a@b.Cd ist. Ja",
        "Da.[1] Ok.² Ja! ❤️ So.", "Es wurde 18. Sie ist D.C. He",
    ]  # fmt: skip
    got = in_node(page, texts=texts, characters=20)["pieces"]
    for text, pieces in zip(texts, got, strict=True):
        expected = [piece.text for piece in split_text(text, lambda part: len(part) <= 20, packs=False) if piece.text]
        assert [len(piece) <= 20 for piece in pieces] == [True] * len(pieces)
        if text != "a" * 50:  # between characters, it may split anywhere
            assert pieces == expected
        assert "".join(pieces).replace(" ", "") == "".join(text.split())


def test_words_in_different_scripts_are_found(page):
    found = in_node(page, texts=["Ein Hund, z. B.", "it's 12.5 %", "أنا هنا."])["found"]
    assert found[0][:3] == ["Ein", "Hund", ","]
    assert found[1] == ["it's", "12.5", "%"]
    assert found[2] == ["أنا", "هنا", "."]


def test_push_uploads_the_entire_page_to_a_static_space(page, hub_here):
    assert main(["push", str(page), "you/page"]) == 0
    assert hub_here.kinds["you/page"] == ("space", "static")
    files = {path.relative_to(page).as_posix(): path.read_bytes() for path in page.rglob("*") if path.is_file()}
    assert hub_here.repositories["you/page"]["main"] == files


def test_incomplete_page_is_not_pushed(page, hub_here, capsys):
    (page / "model/tokenizer.json").unlink()
    assert main(["push", str(page), "you/page"]) == 2
    assert "has no model/tokenizer.json: the page is incomplete. Export it again." in capsys.readouterr().err
    assert hub_here.repositories == {}
