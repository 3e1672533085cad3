"""The model card of a trained model, written from what was measured: never a figure that no run has given."""

from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

TEMPLATE = Path(__file__).with_name("model_card_template.md")


def write_card(folder: Path, recipe: dict[str, dict[str, Any]], results: dict[str, Any]) -> Path:
    """Write `README.md` into the folder of a trained model.

    Args:
        folder: of the model; its name becomes the model's.
        recipe: sections of the recipe.
        results: what `Results.to_dict()` gives.

    Returns:
        The path of the card.
    """
    data = recipe["data"]
    languages = [code for code in (data["source_language"], data["target_language"]) if code]
    name = folder.resolve().name
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
    )
    path = folder / "README.md"
    card.save(path)
    return path


def _eval_results(data: dict[str, Any], results: dict[str, Any]) -> list[EvalResult] | None:
    if "test_bleu" not in results:
        return None
    test_set = data["dataset"] or Path(data["test_source"]).stem
    return [
        EvalResult(
            task_type="translation",
            dataset_type=test_set,
            dataset_name=test_set,
            metric_type="bleu",
            metric_value=round(results["test_bleu"], 2),
            metric_name=f"BLEU ({results['test_bleu_signature']})",
        )
    ]


def _results_table(results: dict[str, Any]) -> str:
    rows = [("validation loss per target token", f"{results['validation_loss']:.4f}")]
    signature = ""
    if "test_bleu" in results:
        rows.append(("test BLEU", f"{results['test_bleu']:.2f}"))
        # Not in the table: it has the bars that part its columns.
        signature = f"\n\nsacreBLEU's signature: `{results['test_bleu_signature']}`"
    return (
        "\n".join(["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]) + signature
    )


def _without_paths(recipe: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe as others can use it: file names instead of this machine's paths."""
    files = {k: Path(v).name if v and k.endswith(("_source", "_target")) else v for k, v in recipe["data"].items()}
    training = {k: v for k, v in recipe["training"].items() if k not in ("output_dir", "overwrite")}
    return {**recipe, "data": files, "training": training}
