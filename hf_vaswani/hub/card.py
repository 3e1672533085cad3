"""The model card of a trained model, written from what was measured: never a figure that no run has given.

The frame is `model_card_template.md`; here its values are made of the recipe and of `results.json`. Whatever comes
from a recipe or a text is set as plain text, and stays that (`markdown.py`).
"""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import yaml

from .markdown import fenced, plain, table
from .metadata import HUB_METRICS, metadata, title_of
from .usage import usage_code

TEMPLATE = Path(__file__).with_name("model_card_template.md")
# Keys of a recipe that say nothing of the model.
PRIVATE = {"output_dir", "overwrite", "cache_dir", "processes", "cpu_threads"}
# Those whose values are files, if they are text.
FILE_KEYS = {"file", "source", "target", "train", "validation", "test"} | {
    f"{split}_{side}" for split in ("train", "validation", "test") for side in ("source", "target")
}
# Pictures of attention that a card shows, and the names of those that say most.
MOST_PICTURES = 4
CROSS_ATTENTION = re.compile(r"_cross(_layer_\d+)?\.png$")
KINDS = {
    "BPE": "byte-pair encoding", "Unigram": "unigram language model", "WordPiece": "word pieces", "WordLevel": "words",
}  # fmt: skip
# Keys of section `tokenizer` that change how text is read, with what they do.
TREATMENT = {
    "lowercase": "all text lower-cased", "byte_fallback": "unknown characters as bytes",
}  # fmt: skip
DROPOUT = {
    "dropout": "dropout", "embedding_dropout": "dropout of embeddings", "attention_dropout": "dropout on attention",
    "activation_dropout": "dropout inside the FFN", "encoder_word_dropout": "dropout of source tokens",
    "decoder_word_dropout": "dropout of target tokens", "encoder_layerdrop": "LayerDrop in the encoder",
    "decoder_layerdrop": "LayerDrop in the decoder",
}  # fmt: skip
KWH = 3.6e6


def card_text(
    name: str,
    recipe: dict[str, dict[str, Any]],
    results: dict[str, Any],
    defaults: dict[str, dict[str, Any]],
    pictures_in: str = "",
) -> str:
    """A model card: metadata in YAML and text in Markdown.

    Args:
        name: of the model.
        recipe: its sections, as `Recipe.to_dict()` gives them.
        results: what `Results.to_dict()` gives.
        defaults: what a recipe's keys are where they are left out, by section.
        pictures_in: folder of the pictures, as seen from the card; "" for the card's own.
    """
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    # Values are not templates: what stands in them in braces stays as it is.
    recipe_file = yaml.safe_dump(shared(recipe, defaults), sort_keys=False, allow_unicode=True).strip()
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        metadata=metadata(name, recipe, results).to_yaml(),
        name=plain(name),
        summary=_summary(recipe, results),
        usage=_usage(name, results),
        is_tokenised=_is_tokenised(recipe),
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
        tested=_tested(recipe, results),
        limits=_limits(recipe, results),
        by_length=_by_length(results),
        versions=_versions(results),
        again=_again(recipe["training"], results),
        recipe=fenced(recipe_file, "yaml"),
        **_pictures(results.get("pictures", []), pictures_in),
    )
    return text.encode("utf-8", "replace").decode()


def _summary(recipe: dict[str, Any], results: dict[str, Any]) -> str:
    data, pairs = recipe["data"], results["pairs"]["train"]
    languages = [plain(code) for code in (data["source_language"], data["target_language"]) if code]
    direction = " to ".join(languages) if len(languages) == 2 else "one language to another"
    start = recipe["training"]["start_from"]
    origin = f"fine-tuned from {plain(_file_names(start))}" if start else "trained from scratch"
    part = f"{results['epochs']:.2g} epochs of " if _saw_a_part(results) else ""
    size = f" on {part}{pairs:,} sentence pairs" if pairs else ""
    size += f" of {plain(results['text'])}" if size and results.get("text") else ""
    return (
        f"Translates single sentences from {direction}. An encoder–decoder Transformer ([Vaswani et al. "
        f"2017](https://arxiv.org/abs/1706.03762)) of {results['parameters']:,} parameters, {origin}{size} with "
        "`hf_vaswani`."
    )


def _usage(name: str, results: dict[str, Any]) -> str:
    example = results.get("findings", {}).get("example")
    code = usage_code(name, example["source"] if example else "…")
    if example:
        # A comment ends with its line, and a text of the test set may hold more.
        code += f"\n# {' '.join(example['translation'].split()) or '(nothing)'}"
    return fenced(code, "python")


def _is_tokenised(recipe: dict[str, Any]) -> bool:
    """Whether the text came in tokens of its own, which BLEU then counts."""
    return recipe["evaluation"]["tokenize"] == "none"


def _scores(recipe: dict[str, Any], results: dict[str, Any]) -> str:
    beams = recipe["generation"]["num_beams"]
    rows = []
    for name, scores in results["tests"].items():
        sentences = scores.get("sentences") or (results["pairs"]["test"] if name == "test" else None)
        searches = {"": f"beam {beams}", "greedy_": "greedy"} if beams > 1 else {"": "greedy"}
        for prefix, search in searches.items():
            if f"{prefix}bleu" in scores:
                values = [f"{scores[prefix + key]:.2f}" if prefix + key in scores else "–" for key in HUB_METRICS]
                title = plain(title_of(name, recipe, results))
                rows.append([title, f"{sentences:,}" if sentences else "–", search, *values])
    return table(["test set", "sentences", "search", "BLEU", "chrF2"], rows) if rows else ""


def _signatures(results: dict[str, Any]) -> list[tuple[str, str]]:
    found = [
        (title, scores[f"{key}_signature"])
        for key, (_, title) in HUB_METRICS.items()
        for scores in results["tests"].values()
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
        held_out = f"{100 * share:g}% of the text, held out at random" if share else "–"
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


def _saw_a_part(results: dict[str, Any]) -> bool:
    """Whether training ended within its first epoch."""
    return bool(results["epochs"] and results["epochs"] < 1)


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
    read = f"{counts['pairs']:,} training pairs were read in the first epoch, as far as it went."
    if kept is not None:
        read = f"Of {counts['pairs']:,} training pairs read, {kept:,} are trained on"
        read += "; training ended before it had seen them all." if _saw_a_part(results) else "."
    return (
        read
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
    # A tokenizer that was made before was used as it is, whatever these keys say.
    is_new = not (recipe["tokenizer"]["path"] or recipe["training"]["start_from"])
    settings = recipe["tokenizer"] if is_new else {}
    treatment = [words for key, words in TREATMENT.items() if settings.get(key)]
    if settings.get("words") == "spaces":
        treatment.append("words end at white space alone")
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
    widths = [f"{key} {of[key]:,}" for key in ("d_k", "d_v") if of.get(key)]
    heads = pair("attention_heads") + (f" of {', '.join(widths)}" if widths else "")
    return [
        f"Tokenizer: {', '.join([kind, sizes, *treatment])}",
        f"{of['encoder_layers']} + {of['decoder_layers']} layers (encoder + decoder), {of['norm_position']}-norm; "
        f"d_model {of['d_model']:,}; heads {heads}; feed-forward {pair('ffn_dim')}",
        f"Positions: {positions}",
        f"Embeddings: {sharing}",
        f"{results['parameters']:,} parameters",
    ]


def _both(encoder: int, decoder: int) -> str:
    return f"{encoder:,}" if encoder == decoder else f"{encoder:,} + {decoder:,}"


def _training(recipe: dict[str, Any], results: dict[str, Any]) -> list[str]:
    seen, training = results["seen"], recipe["training"]
    facts = [f"{results['update']:,} updates in {duration(results['seconds'])}"]
    if results["epochs"]:
        facts[0] += f", {results['epochs']:.1f} epochs"
    if seen:
        mean = seen["target_tokens"] / max(results["update"], 1)
        facts.append(
            f"{seen['source_tokens']:,} source and {seen['target_tokens']:,} target tokens, padding left out; on "
            f"average {mean:,.0f} target tokens an update"
        )
    for settings in (_optimisation(training, results.get("processes")), _regularisation(recipe, results)):
        facts.append("; ".join(f"{label} {value}" for label, value in settings))
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


def _optimisation(training: dict[str, Any], processes: list[int] | None) -> list[tuple[str, str]]:
    """How weights are moved, and by how much text at once, as labels and values.

    Args:
        processes: numbers of them that trained; `None` where that is not known.
    """
    beta1, beta2 = training["adam_betas"]
    decay, clipping, average = (training[key] for key in ("weight_decay", "max_grad_norm", "ema_decay"))
    settings = [
        (f"AdamW, weight decay {decay:g}, betas" if decay else "Adam, betas", f"{beta1:g} and {beta2:g}"),
        ("learning rate", _learning_rate(training)),
        ("updates of", _update_size(training, processes)),
    ]
    if clipping:
        settings.append(("gradients clipped to norm", f"{clipping:g}"))
    if average:
        settings.append(("moving average of the weights, decay", f"{average:g}"))
    return settings


def _learning_rate(training: dict[str, Any]) -> str:
    schedule, peak, warmup = training["schedule"], f"{training['learning_rate']:g}", training["warmup_updates"]
    if schedule == "paper":
        rate = f"{peak} × equation 3"
    else:
        rate = f"{peak if schedule == 'constant' else f'up to {peak}'}, {schedule}"
    return rate + (f", {warmup:,} updates of warm-up" if warmup else "")


def _update_size(training: dict[str, Any], processes: list[int] | None) -> str:
    """The most that an update is computed from, in all its forward passes; those of a single device where the number
    of processes is not known, or has changed."""
    is_known = processes is not None and len(processes) == 1
    passes = training["accumulation"] * (processes[0] if is_known else 1)
    size = f"up to {training['max_tokens'] * passes:,} tokens a side, padding included"
    if training["max_sentences"]:
        size += f", and {training['max_sentences'] * passes:,} pairs"
    size += f", in {passes:,} forward passes" if passes > 1 else ""
    return size if is_known else f"{size} on each device"


def _regularisation(recipe: dict[str, Any], results: dict[str, Any]) -> list[tuple[str, str]]:
    """What keeps the model from learning the text by heart, as labels and values."""
    of, training = results["architecture"], recipe["training"]
    values = {words: of.get(key) for key, words in DROPOUT.items()}
    values["BPE dropout"] = recipe["tokenizer"].get("bpe_dropout")
    values["R-Drop, alpha"] = training.get("r_drop")
    settings = [(label, f"{value:g}") for label, value in values.items() if value]
    if training.get("r_drop") and training.get("r_drop_from", 1) > 1:
        settings.append(("R-Drop from update", f"{training['r_drop_from']:,}"))
    return [*settings, ("label smoothing", f"{of['label_smoothing']:g}")]


def _energy(results: dict[str, Any]) -> str:
    """Measured energy, or that there is none."""
    if not results["energy"]:
        return "Energy: not measured"
    names = {"cpu": "CPU packages, whoever used them", "gpu": "GPUs"}
    parts = []
    for kind, (joules, seconds) in results["energy"].items():
        # The end of the last update and that of the measurement are not quite the same moment.
        share = "" if seconds >= 0.98 * results["seconds"] else f", in {duration(seconds)} of the training alone"
        parts.append(f"{joules / KWH:.3g} kWh ({names[kind]}{share})")
    several = "; of the first machine alone" if any(" machines" in machine for machine in results["machines"]) else ""
    return f"Energy: {' and '.join(parts)}, measured{several}"


def _tested(recipe: dict[str, Any], results: dict[str, Any]) -> str | None:
    """The test set that was looked at closely, which is the first; `None` without one."""
    if "findings" not in results:
        return None
    return plain(title_of(next(iter(results["tests"])), recipe, results))


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
    if _is_tokenised(recipe):
        counted = "BLEU counted the text's own tokens. " if results.get("findings") else ""
        limits.insert(
            0,
            f"{counted}Text in another form than the training text, not tokenised or not lower-cased as it is, was "
            "not tested; expect worse.",
        )
    if findings := results.get("findings"):
        return _measured_limits(findings, _greatest_length(recipe, results["architecture"])) + limits
    return ["The model was not tested: none of its translations was scored.", *limits]


def _greatest_length(recipe: dict[str, Any], architecture: dict[str, Any]) -> str:
    """At which the search for a translation ends, in words."""
    words = f"source + {recipe['generation']['max_length_offset']} tokens"
    if architecture["position_type"] == "learned":
        words += f", and never more than {architecture['max_position_embeddings'] - 1:,}"
    return words


def _measured_limits(findings: dict[str, Any], greatest_length: str) -> list[str]:
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
            f"At least {at_limit:,} {of} translations break off at the greatest length allowed ({greatest_length})."
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


def _again(training: dict[str, Any], results: dict[str, Any]) -> str:
    """The command that makes the same updates, as far as there is one."""
    command, words = "hf-vaswani train recipe.yaml --output_dir FOLDER", ""
    processes, precision = results.get("processes") or [], results["precision"].partition(",")[0]
    if precision in ("fp16", "bf16") and training["mixed_precision"] is None:
        command += f" --mixed_precision {precision}"
    if training["max_minutes"] and results["seconds"] >= 60 * training["max_minutes"]:
        if training["schedule"] in ("linear", "cosine"):
            words = " It was the clock that ended this training: on another machine it makes other updates."
        else:
            # The clock ended it, which says nothing on another machine.
            command += f" --max_minutes null --max_updates {results['update']}"
    how = f", in {processes[0]} processes" if len(processes) == 1 and processes[0] > 1 else ""
    return f"`{command}` with this file and the text above trains the model again{how}.{words}"


def shown_pictures(names: list[str]) -> list[str]:
    """The pictures that a card shows: curves, then attention, of which cross-attention says most."""
    attention = [name for name in names if not _is_of_curves(name)]
    attention.sort(key=lambda name: not CROSS_ATTENTION.search(name))
    return [name for name in names if _is_of_curves(name)] + attention[:MOST_PICTURES]


def _is_of_curves(name: str) -> bool:
    return Path(name).stem == "curves"


def _pictures(names: list[str], folder: str) -> dict[str, list]:
    """Curves and attention, by their paths as seen from the card."""
    # Quoted, since Markdown ends an address at a space.
    paths = {name: quote(f"{folder}/{name}" if folder else name) for name in shown_pictures(names)}
    return {
        "curves": [path for name, path in paths.items() if _is_of_curves(name)],
        "attention": [
            {"title": plain(Path(name).stem.replace("_", " ")), "path": path}
            for name, path in paths.items()
            if not _is_of_curves(name)
        ],
    }


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"


def _scientific(value: float) -> str:
    """As the paper writes costs: 3.3 · 10^18."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10^{int(exponent)}"


def shared(recipe: dict[str, dict[str, Any]], defaults: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe as others can use it: file names instead of this machine's paths, and no key that is empty by
    default and left so."""
    sections = {
        section: {
            key: _file_names(value, key)
            for key, value in keys.items()
            if key not in PRIVATE and (value not in (None, [], {}) or value != defaults[section].get(key))
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
