"""Recipe keys and values that were renamed: rejected with the new name, but accepted in recipes stored by a run."""

from typing import Any, cast

Sections = dict[str, dict[str, Any]]
# Section → old key → new key.
RENAMED_KEYS = {
    "training": {
        "max_updates": "max_steps",
        "max_epochs": "num_train_epochs",
        "accumulation": "gradient_accumulation_steps",
        "schedule": "lr_scheduler_type",
        "warmup_updates": "warmup_steps",
        "adam_betas": "adam_beta1 and adam_beta2",
        "adam_eps": "adam_epsilon",
        "max_skipped_updates": "max_skipped_steps",
        "compile": "torch_compile",
        "log_every": "logging_steps",
        "trackers": "report_to",
        "validate_every": "eval_steps",
        "validate_sentences": "eval_sentences",
        "best_metric": "metric_for_best_model",
        "patience": "early_stopping_patience",
        "save_every": "save_steps",
        "keep_last": "save_total_limit",
    },
    "tokenizer": {"words": "pre_tokenizer", "space_mark": "word_boundary"},
    "data": {"processes": "num_proc"},
}
# Old value → new value, by key.
RENAMED_VALUES: dict[Any, dict[Any, Any]] = {
    "pre_tokenizer": {"spaces": "whitespace"},
    "dataset": {"embedded": "built-in"},
    "mixed_precision": {None: "auto"},
}
# Keys whose value is a source: a dataset's name or a path.
SOURCES = ("train", "validation", "test", "tests")


def new_name(key: str, section: str | None = None) -> str | None:
    """The new name of a renamed key, with its section, or `None`. The old key may begin with its section."""
    where, _, bare = key.rpartition(".")
    for name, renamed in RENAMED_KEYS.items():
        if name in (section or where or name) and bare in renamed:
            return " and ".join(f"{name}.{new}" for new in renamed[bare].split(" and "))
    return None


def with_new_names(recipe: Sections) -> Sections:
    """A recipe stored by an earlier version, with its keys and values renamed; the values may be of any type."""
    return {section: _renamed(keys, RENAMED_KEYS.get(section, {})) for section, keys in recipe.items()}


def _renamed(keys: dict[Any, Any], renamed: dict[str, str]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in keys.items():
        names = renamed[key].split(" and ") if key in renamed else [key]
        values = cast(list[Any], value) if len(names) > 1 and type(value) is list else [value]
        result.update({name: _new_value(name, value) for name, value in zip(names, values)})
    return result


def _new_value(key: Any, value: Any) -> Any:
    if isinstance(value, dict):
        entries = cast(dict[Any, Any], value)
        return {name: _new_value(key if key in SOURCES else name, entry) for name, entry in entries.items()}
    if isinstance(value, list):
        return [_new_value(key, entry) for entry in cast(list[Any], value)]
    renamed = RENAMED_VALUES.get("dataset" if key in SOURCES else key, {})
    return renamed.get(value, value)
