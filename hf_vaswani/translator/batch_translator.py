"""Translates a column of each batch, for Ray Data's actors, `datasets.map` and Spark's `mapInPandas`.

Whatever hands out the batches decides where they are translated, and starts the processes. Each process gets a copy of
the translator without the model, and loads the model when its first batch arrives. Copies have a digest of the model's
files, by which `datasets.map` notices that the model has changed since it cached its translations.
"""

import logging
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np

from ..errors import InputError, counted
from .lines import Line, LineTranslator, error_message
from .search import LAST_WINDOW
from .translator_settings import TranslatorSettings

logger = logging.getLogger(__name__)


class BatchTranslator:
    """Adds translations to batches of rows.

    Args:
        model: folder or Hub id of a model or an adapter, or a folder exported for an engine.
        column: name of the column with the texts.
        output_column: name of the column for the translations.
        error_column: name of a column that says why a text has no translation, "" if it has one; by default, errors
            are logged.
        num_workers: processes that translate a batch on a CPU; use more than one only if the other cores are idle.
        dtype: dtype to compute in; default: the dtype of the weights.
        quantize: `"int8"` for 8-bit weights.
        engine: what computes the translations, as in the pipeline.
        src_lang, tgt_lang: languages, for multilingual models.
        via, second_model: to translate over a third language, as in the pipeline.
        options: arguments of the pipeline call and of `generate()`, such as `num_beams=4` or `split_sentences=True`.
    """

    def __init__(
        self,
        model: str | PathLike,
        column: str = "text",
        output_column: str = "translation",
        error_column: str | None = None,
        num_workers: int | None = 1,
        dtype: str | None = None,
        quantize: str | None = None,
        engine: str = "auto",
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        via: str | None = None,
        second_model: str | PathLike | None = None,
        **options,
    ):
        self.column, self.output_column, self.error_column = column, output_column, error_column
        given = {"src_lang": src_lang, "tgt_lang": tgt_lang, "via": via}
        spoken = {name: code for name, code in given.items() if code is not None}
        arguments = {"num_workers": num_workers, **options}
        second = None if second_model is None else fspath(second_model)
        self.settings = TranslatorSettings(
            (fspath(model),), dtype, quantize, engine, spoken, arguments, second_model=second
        )
        self._translate: LineTranslator | None = None
        self._content = ""

    def __getstate__(self) -> dict[str, object]:
        # `datasets.map` recognizes its cached results by the state: with other weights, it must not be the same.
        content = self.settings.content_digest()
        if content != self._content:
            self._content, self._translate = content, None
        return {**vars(self), "_translate": None}

    def __call__(self, batch: object) -> Any:
        """Add translations to a batch.

        A text that cannot be translated gets an empty translation. Translations that may be wrong, since they are far
        shorter or longer than usual or repeat themselves, are logged. A missing value (None, NaN or pandas's NA) gets
        None.

        Args:
            batch: a mapping from column names to lists or NumPy arrays, a pandas `DataFrame`, or an Arrow `Table`.

        Returns:
            A batch of the same type with the new columns; the given batch is not changed.

        Raises:
            InputError: the model cannot be loaded, or the column is missing or holds no text at all.
            Exception: the last error, if 64 or more texts all fail: then the texts are not the cause.
        """
        names = list(batch.column_names if hasattr(batch, "append_column") else batch.keys())
        if self.column not in names:
            raise InputError(f"There is no column {self.column!r}: the batch has {', '.join(map(repr, names))}.")
        translations, errors, doubtful = self._translated(_values(batch[self.column]))
        added = {self.output_column: translations}
        if self.error_column is not None:
            added[self.error_column] = errors
        elif failed := [error for error in errors if error]:
            logger.warning("%s without a translation; the first: %s", counted(len(failed), "text"), failed[0])
        if doubtful:
            logger.warning("%s may be wrong; the first: %s", counted(len(doubtful), "translation"), doubtful[0])
        return _with_columns(batch, added)

    def _translated(self, values: list[object]) -> tuple[list[str | None], list[str], list[str]]:
        """The translation of each value, why it has none ("" if it has one), and which translations may be wrong."""
        doubtful: list[str] = []
        translations: list[str | None] = [None] * len(values)
        # Not None: the first batch decides the type of a column in datasets, and is likely to have no error.
        errors = [""] * len(values)
        places = [place for place, value in enumerate(values) if isinstance(value, str)]
        for place, value in enumerate(values):
            if not isinstance(value, str) and not _is_missing(value):
                translations[place], errors[place] = "", f"{type(value).__name__}, not a text"
        if not places and any(errors):
            raise InputError(f"The column {self.column!r} contains no text: {next(filter(None, errors))}.")
        if self._translate is None and places:
            self._translate = self.settings.open()
        for start in range(0, len(places), LAST_WINDOW):
            those = places[start : start + LAST_WINDOW]
            results = self._translate([Line(str(values[place])) for place in those])
            for place, result in zip(those, results):
                failed = isinstance(result, Exception)
                translations[place] = "" if failed else result[0]["translation_text"]
                errors[place] = error_message(result) if failed else ""
                if not failed and (warning := result[0].get("warning")):
                    doubtful.append(f"row {place}: {warning}")
        return translations, errors, doubtful


def _values(column: object) -> list[object]:
    """The values of a list, an array, or a column of pandas or Arrow."""
    for method in ("to_pylist", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)


def _is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or pandas's NA."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def _with_columns(batch: object, added: Mapping[str, Sequence[str | None]]) -> object:
    if hasattr(batch, "assign"):  # pandas
        import pandas as pd

        # With any other dtype, None would become NaN.
        return batch.assign(**{name: pd.Series(values, batch.index, object) for name, values in added.items()})
    if hasattr(batch, "append_column"):  # Arrow
        import pyarrow as pa

        for name, values in added.items():
            if name in batch.column_names:
                batch = batch.drop_columns([name])
            batch = batch.append_column(name, pa.array(values, pa.string()))
        return batch
    has_arrays = any(isinstance(column, np.ndarray) for column in batch.values())
    made = {name: np.array(values, dtype=object) if has_arrays else values for name, values in added.items()}
    return {**batch, **made}
