"""The model card of a trained model, written from what was measured: never a figure that no run has given.

The frame is `model_card_template.md`; here its values are made of the recipe and of `results.json`. Whatever comes
from a recipe or a text is set as plain text, and stays that (`markdown.py`).
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import jinja2
import yaml

from .markdown import fenced, plain, table
from .metadata import METRICS, metadata, scores_by_test_set, title_of

TEMPLATE = Path(__file__).with_name("model_card_template.md")
# Keys of a recipe that say nothing of the model.
PRIVATE = {"output_dir", "overwrite", "cache_dir", "processes", "cpu_threads"}
# Keys for which nothing is a choice, and not the default.
CHOSEN_NULLS = {"test_split"}
# Those whose values are files, if they are text.
FILE_KEYS = {"file", "source", "target", "train", "validation", "test"} | {
    f"{split}_{side}" for split in ("train", "validation", "test") for side in ("source", "target")
}
# Pictures of attention that a card shows.
MOST_PICTURES = 4
USAGE = """\
import hf_vaswani
from transformers import pipeline

translator = pipeline("translation", model={name})
print(translator({text})[0]["translation_text"])"""
KINDS = {
    "BPE": "byte-pair encoding", "Unigram": "unigram language model", "WordPiece": "word pieces", "WordLevel": "words",
}  # fmt: skip
# Keys of section `tokenizer` that change how text is read, with what they do.
TREATMENT = {
    "lowercase": "all text lower-cased", "byte_fallback": "unknown characters as bytes",
    "bpe_dropout": "BPE dropout {value:g} in training",
}  # fmt: skip
DROPOUT = {"dropout": "dropout", "attention_dropout": "on attention", "activation_dropout": "inside the FFN"}
KWH = 3.6e6


def card_text(name: str, recipe: dict[str, dict[str, Any]], results: dict[str, Any], pictures_in: str = "") -> str:
    """A model card: metadata in YAML and text in Markdown.

    Args:
        name: of the model.
        recipe: its sections, as `Recipe.to_dict()` gives them.
        results: what `Results.to_dict()` gives.
        pictures_in: folder of the pictures, as seen from the card; "" for the card's own.
    """
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    # Values are not templates: what stands in them in braces stays as it is.
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        metadata=metadata(name, recipe, results).to_yaml(),
        name=plain(name),
        summary=_summary(recipe, results),
        usage=_usage(name, results),
        scores=_scores(recipe, results),
        signatures=_signatures(results),
        validation={
            "loss": f"{results['validation_loss']:.4f}",
            "perplexity": f"{results['validation_perplexity']:.2f}",
            "accuracy": f"{results['validation_accuracy']:.1%}",
        },
        texts=_texts(recipe, results),
        filters=_filters(results),
        licence=_licence(recipe),
        architecture=_architecture(recipe, results),
        training=_training(recipe, results),
        samples=_samples(results),
        limits=_limits(recipe, results),
        by_length=_by_length(results),
        versions=_versions(results),
        recipe=fenced(yaml.safe_dump(_without_paths(recipe), sort_keys=False, allow_unicode=True).strip(), "yaml"),
        **_pictures(results.get("pictures", []), pictures_in),
    )
    return text.encode("utf-8", "replace").decode()


def _summary(recipe: dict[str, Any], results: dict[str, Any]) -> str:
    data, pairs = recipe["data"], results["pairs"]["train"]
    languages = [plain(code) for code in (data["source_language"], data["target_language"]) if code]
    direction = " to ".join(languages) if len(languages) == 2 else "one language to another"
    start = recipe["training"]["start_from"]
    origin = f"fine-tuned from {plain(_file_names(start))}" if start else "trained from scratch"
    size = f" on {pairs:,} sentence pairs" if pairs else ""
    size += f" of {plain(results['text'])}" if size and results.get("text") else ""
    return (
        f"Translates single sentences from {direction}. An encoder–decoder Transformer ([Vaswani et al. "
        f"2017](https://arxiv.org/abs/1706.03762)) of {results['parameters']:,} parameters, {origin}{size} with "
        "`hf_vaswani`."
    )


def _usage(name: str, results: dict[str, Any]) -> str:
    example = results.get("findings", {}).get("example")
    text = json.dumps(example["source"] if example else "…", ensure_ascii=False)
    code = USAGE.format(name=json.dumps(name, ensure_ascii=False), text=text)
    if example:
        # A comment ends with its line, and a text of the test set may hold more.
        code += f"\n# {' '.join(example['translation'].split()) or '(nothing)'}"
    return fenced(code, "python")


def _scores(recipe: dict[str, Any], results: dict[str, Any]) -> str:
    beams = recipe["generation"]["num_beams"]
    rows = []
    for name, scores in scores_by_test_set(results).items():
        sentences = scores.get("sentences") or (results["pairs"]["test"] if name == "test" else None)
        for prefix, search in (("", f"beam {beams}" if beams > 1 else "greedy"), ("greedy_", "greedy")):
            if f"{prefix}bleu" in scores:
                values = [f"{scores[prefix + key]:.2f}" if prefix + key in scores else "–" for key in METRICS]
                rows.append([plain(title_of(name, results)), f"{sentences:,}" if sentences else "–", search, *values])
    return table(["test set", "sentences", "search", "BLEU", "chrF2"], rows) if rows else ""


def _signatures(results: dict[str, Any]) -> list[tuple[str, str]]:
    found = [
        (title, scores[f"{key}_signature"])
        for key, (_, title) in METRICS.items()
        for scores in scores_by_test_set(results).values()
        if f"{key}_signature" in scores
    ]
    return list(dict.fromkeys(found))


def _texts(recipe: dict[str, Any], results: dict[str, Any]) -> str:
    rows = []
    for split, number in results["pairs"].items():
        if number == 0:
            continue
        sources = results["sources"].get(split)
        share = recipe["data"].get(f"{split}_share")
        held_out = f"{share:.0%} of the text, held out at random" if share else "–"
        origin = "; ".join(map(_origin, sources)) if sources else held_out
        rows.append([split, origin, f"{number:,}" if number else "streamed"])
    return table(["split", "from", "pairs"], rows)


def _origin(source: dict[str, Any]) -> str:
    weight = f", weight {source['weight']:g}" if source.get("weight") else ""
    if "files" in source:
        return ", ".join(map(plain, source["files"])) + weight
    name = source["dataset"]
    words = f"[{plain(name)}](https://huggingface.co/datasets/{name})" if source["on_hub"] else plain(name)
    if name == "embedded":
        words = "the corpus of `hf_vaswani`, made from a grammar"
    details = [plain(source[key]) for key in ("config", "split", "revision") if source[key]]
    return ", ".join([words, *details]) + weight


def _filters(results: dict[str, Any]) -> str:
    """What was left out of the training text, and what was found in it and kept."""
    counts, kept = results["filters"], results["pairs"]["train"]
    if not counts:
        return "How many training pairs were left out was not counted."
    found = [fault for fault in results["faults"] if fault["pairs"]]
    words = [
        ", ".join(f"{fault['pairs']:,} {fault['meaning']}" for fault in found if fault["left_out"] is left_out)
        for left_out in (True, False)
    ]
    return (
        f"Of {counts['pairs']:,} training pairs read, {kept:,} are trained on."
        + (f" Left out: {words[0]}." if words[0] else " None was left out.")
        + (f" Kept: {words[1]}." if words[1] else "")
    )


def _licence(recipe: dict[str, Any]) -> str:
    text, model = recipe["data"].get("license"), recipe["training"].get("license")
    return (
        f"Licence of the text: {plain(text)}. " if text else "The licence of the text is not named in the recipe. "
    ) + (f"Licence of the model: {model}." if model else "No licence was chosen for the model.")


def _architecture(recipe: dict[str, Any], results: dict[str, Any]) -> list[str]:
    of, tokenizer = results["architecture"], results["tokenizer"]
    kind = KINDS.get(tokenizer["type"], tokenizer["type"])
    sizes = (
        f"one vocabulary of {tokenizer['source_tokens']:,} for both languages"
        if tokenizer["joint"]
        else f"vocabularies of {tokenizer['source_tokens']:,} (source) and {tokenizer['target_tokens']:,} (target)"
    )
    settings = recipe["tokenizer"]
    treatment = [words.format(value=settings[key]) for key, words in TREATMENT.items() if settings.get(key)]
    if settings.get("normalization") not in (None, "none"):
        treatment.append(f"Unicode form {settings['normalization'].upper()}")
    positions = of["position_type"]
    if positions == "learned":
        positions += f", up to {of['max_position_embeddings']:,} tokens"
    sharing = (
        "one matrix for source, target and softmax"
        if of["share_encoder_decoder_embeddings"] and of["tie_word_embeddings"]
        else "one matrix for source and target, the softmax has its own"
        if of["share_encoder_decoder_embeddings"]
        else "a matrix for the source, one for target and softmax"
        if of["tie_word_embeddings"]
        else "a matrix each for source, target and softmax"
    )
    pair = lambda key: _both(of[f"encoder_{key}"], of[f"decoder_{key}"])  # noqa: E731
    return [
        f"Tokenizer: {', '.join([kind, sizes, *treatment])}",
        f"{of['encoder_layers']} + {of['decoder_layers']} layers (encoder + decoder), {of['norm_position']}-norm; "
        f"d_model {of['d_model']:,}; heads {pair('attention_heads')}; feed-forward {pair('ffn_dim')}",
        f"Positions: {positions}",
        f"Embeddings: {sharing}",
        f"{results['parameters']:,} parameters",
    ]


def _both(encoder: int, decoder: int) -> str:
    return f"{encoder:,}" if encoder == decoder else f"{encoder:,} + {decoder:,}"


def _training(recipe: dict[str, Any], results: dict[str, Any]) -> list[str]:
    seen, training = results["seen"], recipe["training"]
    facts = [f"{results['update']:,} updates in {_time(results['seconds'])}"]
    if results["epochs"]:
        facts[0] += f", {results['epochs']:.1f} epochs"
    if seen:
        mean = seen["target_tokens"] / max(results["update"], 1)
        facts.append(
            f"{seen['source_tokens']:,} source and {seen['target_tokens']:,} target tokens, padding left out; on "
            f"average {mean:,.0f} target tokens an update"
        )
    of = results["architecture"]
    peak = f"{training['learning_rate']:g}"
    rate = f"{peak} × equation 3" if training["schedule"] == "paper" else f"up to {peak}, {training['schedule']}"
    dropout = [f"{words} {of[key]:g}" for key, words in DROPOUT.items() if of[key]]
    facts.append(
        f"Adam {tuple(training['adam_betas'])}; learning rate {rate}, {training['warmup_updates']:,} updates of "
        f"warm-up; {', '.join(dropout) or 'no dropout'}; label smoothing {of['label_smoothing']:g}"
    )
    facts.append(
        f"Hardware: {'; then '.join(map(plain, results['machines'])) or 'not recorded'}; {results['precision']}"
    )
    facts.append(_energy(results))
    if results["flops"]:
        facts.append(
            f"About {_scientific(results['flops'])} floating-point operations, estimated by 6·N·D (weights of "
            "matrices × tokens that pass them; attention itself is left out)"
        )
    updates = [f"{update:,}" for update in results["averaged"]]
    what = "moving averages of the weights" if training["ema_decay"] else "weights"
    if len(updates) > 1:
        facts.append(f"The model is the mean of the {what} after updates {', '.join(updates[:-1])} and {updates[-1]}")
    else:
        facts.append(f"The model has the {what} after update {updates[0]}")
    return facts


def _energy(results: dict[str, Any]) -> str:
    """Measured energy, or that there is none."""
    if not results["energy"]:
        return "Energy: not measured"
    names = {"cpu": "CPU packages, whoever used them", "gpu": "GPUs"}
    parts = []
    for kind, (joules, seconds) in results["energy"].items():
        # The end of the last update and that of the measurement are not quite the same moment.
        share = "" if seconds >= 0.98 * results["seconds"] else f", in {_time(seconds)} of the training alone"
        parts.append(f"{joules / KWH:.3g} kWh ({names[kind]}{share})")
    several = "; of the first machine alone" if any(" machines" in machine for machine in results["machines"]) else ""
    return f"Energy: {' and '.join(parts)}, measured{several}"


def _samples(results: dict[str, Any]) -> str:
    findings = results.get("findings", {})
    rows = [
        [f"{sample['chrf2']:.1f}"]
        + [plain(sample[side]) or "*(nothing)*" for side in ("source", "translation", "reference")]
        for sample in [*findings.get("best", []), *findings.get("worst", [])]
    ]
    return table(["chrF2", "source", "translation", "reference"], rows) if rows else ""


def _limits(recipe: dict[str, Any], results: dict[str, Any]) -> list[str]:
    """What was measured to go wrong, then what holds of every such model."""
    limits = [
        "Text unlike the training text, of another domain say, was not tested; expect worse.",
        "Each sentence is translated by itself. Like all such models, this one can leave out content, or make it up, "
        "in fluent words.",
    ]
    if findings := results.get("findings"):
        return _measured_limits(findings, recipe["generation"]["max_length_offset"]) + limits
    return ["The model was not tested: none of its translations was scored.", *limits]


def _measured_limits(findings: dict[str, Any], offset: int) -> list[str]:
    of, limits = f"of {findings['sentences']:,} test", []
    if unknown := findings["unknown_tokens"]:
        share = unknown / findings["source_tokens"]
        limits.append(
            f"{share:.2%} of the test set's source tokens are unknown to the vocabulary; what they say is lost."
        )
    longest = findings.get("longest_trained")
    if longest and findings["beyond_training"]:
        beyond = f"{findings['beyond_training']:,} {of} sources"
        limits.append(f"{beyond} are longer than all that was trained on ({longest:,} tokens).")
    elif longest:
        limits.append(f"No source of more than {longest:,} tokens was trained on or tested.")
    if cut := findings["sources_cut"]:
        limits.append(f"{cut:,} {of} sources are longer than the model takes, and were cut.")
    if at_limit := findings["at_limit"]:
        limits.append(
            f"{at_limit:,} {of} translations break off at the greatest length allowed (source + {offset} tokens)."
        )
    if empty := findings["empty"]:
        limits.append(f"{empty:,} {of} translations are empty.")
    return limits


def _by_length(results: dict[str, Any]) -> str:
    rows = [
        [_range(group["shortest"], group["longest"]), f"{group['sentences']:,}", f"{group['chrf2']:.2f}"]
        for group in results.get("findings", {}).get("by_length", [])
    ]
    return table(["source tokens", "sentences", "chrF2"], rows) if rows else ""


def _range(shortest: int, longest: int) -> str:
    return f"{shortest}" if shortest == longest else f"{shortest}–{longest}"


def _versions(results: dict[str, Any]) -> str:
    words = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return f"Trained with {words}."


def shown_pictures(names: list[str]) -> list[str]:
    """The pictures that a card shows: curves, then attention, of which cross-attention says most."""
    attention = sorted((name for name in names if "curves" not in name), key=lambda name: "cross" not in name)
    return [name for name in names if "curves" in name] + attention[:MOST_PICTURES]


def _pictures(names: list[str], folder: str) -> dict[str, list]:
    """Curves and attention, by their paths as seen from the card."""
    paths = {name: f"{folder}/{name}" if folder else name for name in shown_pictures(names)}
    return {
        "curves": [path for name, path in paths.items() if "curves" in name],
        "attention": [
            {"title": plain(Path(name).stem.replace("_", " ")), "path": path}
            for name, path in paths.items()
            if "curves" not in name
        ],
    }


def _time(seconds: float) -> str:
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"


def _scientific(value: float) -> str:
    """As the paper writes costs: 3.3 · 10^18."""
    exponent = math.floor(math.log10(value))
    return f"{value / 10**exponent:.1f}·10^{exponent}"


def _without_paths(recipe: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe as others can use it: file names instead of this machine's paths, and only what the keys do not
    leave at their default of nothing."""
    sections = {
        section: {
            key: _file_names(value, key)
            for key, value in keys.items()
            if (value not in (None, [], {}) or key in CHOSEN_NULLS) and key not in PRIVATE
        }
        for section, keys in recipe.items()
    }
    return {**sections, "model": recipe["model"]}


def _file_names(value: Any, key: str = "") -> Any:
    """A recipe's value with the last part of each path: of what a key names a file, and of what looks like a path or
    is one here."""
    if isinstance(value, dict):
        return {name: _file_names(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [_file_names(entry, key) for entry in value]
    if not isinstance(value, str):
        return value
    is_path = os.path.isabs(value) or value.startswith((".", "~")) or os.path.exists(value)
    return Path(value).name if is_path or key in FILE_KEYS else value
