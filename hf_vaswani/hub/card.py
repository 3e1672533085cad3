"""The model card of a trained model, written from what was measured: never a figure that no run has given."""

from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

# Keys of the results, the metric's id on the Hub, its name.
SCORES = (("test_bleu", "bleu", "BLEU"), ("test_chrf2", "chrf", "chrF2"))
# Keys of a recipe that say nothing of the model.
# Keys for which nothing is a choice, and not the default.
CHOSEN_NULLS = {"test_split"}
PRIVATE = {"output_dir", "overwrite", "cache_dir", "processes", "cpu_threads"}
TEMPLATE = Path(__file__).with_name("model_card_template.md")


def write_card(folder: Path, name: str, recipe: dict[str, dict[str, Any]], results: dict[str, Any]) -> Path:
    """Write `README.md` into the folder of a trained model.

    Args:
        folder: to write into.
        name: of the model.
        recipe: sections of the recipe.
        results: what `Results.to_dict()` gives.

    Returns:
        The path of the card.
    """
    data = recipe["data"]
    languages = [code for code in (data["source_language"], data["target_language"]) if code]
    updates = [f"{update:,}" for update in results["averaged"]]
    card = ModelCard.from_template(
        ModelCardData(
            language=languages or None,
            library_name="transformers",
            pipeline_tag="translation",
            tags=["vaswani", "transformer", "encoder-decoder"],
            model_name=name,
            eval_results=_eval_results(data, results),
        ),
        template_path=str(TEMPLATE),
        name=name,
        direction=" to ".join(languages) if len(languages) == 2 else "one language to another",
        parameters=f"{results['parameters']:,}",
        recipe=yaml.safe_dump(_without_paths(recipe), sort_keys=False, allow_unicode=True).strip(),
        results=_results_table(results),
        update=f"{results['update']:,}",
        minutes=f"{results['minutes']:.1f}",
        averaged=f"s {', '.join(updates[:-1])} and {updates[-1]}" if len(updates) > 1 else f" {updates[0]}",
        origin=_file_names(recipe["training"]["start_from"]) or "scratch",
    )
    path = folder / "README.md"
    card.save(path)
    return path


def _eval_results(data: dict[str, Any], results: dict[str, Any]) -> list[EvalResult] | None:
    if "test_bleu" not in results:
        return None
    # What was held out is of the training text.
    texts = data["test_source"] or data["test"] or data["train_source"] or data["train"]
    test_set = data["dataset"] or _name_of(texts)
    return [
        EvalResult(
            task_type="translation",
            dataset_type=test_set,
            dataset_name=test_set,
            metric_type=metric,
            metric_value=round(results[key], 2),
            metric_name=f"{name} ({results[f'{key}_signature']})",
        )
        for key, metric, name in SCORES
        if key in results
    ]


def _name_of(source: Any) -> str:
    """What a recipe's test set is called: the name of its file or data set."""
    if isinstance(source, list):
        return _name_of(source[0])
    if isinstance(source, dict):
        return source.get("dataset") or _name_of(source.get("file") or source["source"])
    return Path(source).name.partition(".")[0]


def _results_table(results: dict[str, Any]) -> str:
    rows = [
        ("validation loss per target token", f"{results['validation_loss']:.4f}"),
        ("target tokens right in validation", f"{results['validation_accuracy']:.1%}"),
    ]
    scores = [(key, name) for key, _, name in SCORES if key in results]
    rows += [(f"test {name}", f"{results[key]:.2f}") for key, name in scores]
    table = "\n".join(["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    # Not in the table: they have the bars that part its columns.
    signatures = [f"{name}: `{results[f'{key}_signature']}`" for key, name in scores]
    return "\n\n".join([table, *(["sacreBLEU's signatures: " + "; ".join(signatures)] if scores else [])])


def _without_paths(recipe: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe as others can use it: file names instead of this machine's paths, and only what the keys do not
    leave at their default of nothing."""
    sections = {
        section: {
            key: _file_names(value)
            for key, value in keys.items()
            if (value is not None or key in CHOSEN_NULLS) and key not in PRIVATE
        }
        for section, keys in recipe.items()
    }
    return {**sections, "model": recipe["model"]}


def _file_names(value: Any) -> Any:
    """A recipe's value with the last part of each path that begins at a root or leads out of a folder."""
    if isinstance(value, dict):
        return {key: _file_names(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_file_names(entry) for entry in value]
    if isinstance(value, str) and (Path(value).is_absolute() or value.startswith((".", "~")) or Path(value).exists()):
        return Path(value).name
    return value
