"""Reads datasets with the `datasets` library, from the Hub or from a local folder.

Every failure becomes an `InputError` that says what to do. If the Hub cannot be reached, local files with the same
text work just as well.
"""

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError, is_network_error, reason
from ...files import path_error
from .tables import NESTED, choose_columns, flat_record, stored_columns

if TYPE_CHECKING:
    from datasets import DatasetBuilder, Features

TSV = re.compile(r"\.tsv(\.\w+)?$", re.IGNORECASE)
LOCAL_FILES = "use local files instead: --train_source FILE --train_target FILE, or --train FILE.tsv"
# The branch in which the Hub keeps Parquet copies of script-based datasets, one folder per config.
PARQUET_BRANCH = "refs/convert/parquet"
ROWS_AT_ONCE = 1000


def is_whole_split(split: str | None) -> bool:
    """Whether a name stands for one complete split: `train`, not `train[:90%]` or `train+test`."""
    return re.search(r"[\[+]", split or "") is None


class HubDataset:
    """A dataset on the Hub or in a local folder: its builder, config and split.

    Args:
        path: a Hub id or a local folder.
        config: a config of the dataset, such as "de-en".
        split: a split such as "train" or "train[:90%]"; may be None if the dataset has only one.
        revision: a branch, tag or commit.

    Raises:
        InputError: the dataset cannot be reached, does not exist, is not accessible, or lacks the config or split.
    """

    def __init__(self, path: str, config: str | None, split: str | None, revision: str | None):
        from datasets import load_dataset_builder

        self.path, self.is_local = path, Path(path).is_dir()
        self.name = "/".join(part for part in (path, config) if part)
        by_folder = revision == PARQUET_BRANCH and config is not None
        self.arguments = {"path": path, "revision": revision, ("data_dir" if by_folder else "name"): config}
        if error := name_error(path):
            raise InputError(error)
        with self.explained_errors():
            self.builder: DatasetBuilder = load_dataset_builder(**self.arguments)
            if self.is_local and hasattr(self.builder.config, "keep_default_na"):
                # A CSV file: by default, pandas reads text such as "null" and "NA" as missing. (Hub datasets keep the
                # default settings, since the offline cache is looked up by them.)
                self.arguments |= {"keep_default_na": False, "na_values": [""]}
                files = [str(file) for files in (self.builder.config.data_files or {}).values() for file in files]
                if files and all(TSV.search(file) for file in files):
                    # As in a single TSV file, quotation marks are plain text.
                    self.arguments |= {"sep": "\t", "quoting": csv.QUOTE_NONE}
                self.builder = load_dataset_builder(**self.arguments)
        self.split = self._checked_split(split)

    def records(self, candidates: list[tuple[str, str]], streaming: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield `(row number, record)` for each row, with its two text columns, starting at row 1.

        Args:
            candidates: pairs of columns to look for, from [`candidate_columns`].
            streaming: read from the Hub as needed instead of downloading and converting everything first.
        """
        from datasets import load_dataset

        if error := self.streaming_error(streaming):
            raise InputError(error)
        number = 0
        with self.explained_errors():
            data = load_dataset(**self.arguments, split=self.split, streaming=streaming)
            if data.features is not None:
                chosen = choose_columns(_flat_features(data.features), candidates, self.name)
                data = data.select_columns(stored_columns(data.features, chosen))
            for batch in data.iter(ROWS_AT_ONCE):
                for values in zip(*batch.values()):
                    number += 1
                    yield number, flat_record(dict(zip(batch, values)))

    def check_columns(self, candidates: list[tuple[str, str]]) -> None:
        """Check that the text columns exist and hold text, from the dataset's description or its first record.

        Raises:
            InputError: the columns are missing or hold something other than text.
        """
        from datasets import load_dataset

        features = self.builder.info.features
        if features is None:
            with self.explained_errors():
                data = load_dataset(**self.arguments, split=_split_names(self.split)[0], streaming=True)
                features = data.features or next(iter(data), {})
        types = _flat_features(features)
        for column in choose_columns(types, candidates, self.name):
            kind = getattr(types[column], "dtype", "string")
            if kind not in ("string", "large_string", "null"):
                raise InputError(f"{self.name}: column '{column}' contains {kind}, not text.")

    def streaming_error(self, streaming: bool) -> str | None:
        """Say why the split cannot be streamed, or None if it can; only whole splits can be streamed."""
        if streaming and not is_whole_split(self.split):
            return f"{self.name}: a part of a split ('{self.split}') cannot be streamed. Choose a whole split."
        return None

    def files(self) -> list[str]:
        """The local files of the split, in reading order."""
        files = self.builder.config.data_files
        return [str(path) for name in _split_names(self.split) for path in files[name]]

    @property
    def commit(self) -> str:
        """The Hub commit that the data is read from."""
        return str(self.builder.hash)

    def _checked_split(self, split: str | None) -> str:
        from datasets import ReadInstruction

        try:
            ReadInstruction.from_spec(split or "train")
        except (AssertionError, ValueError) as error:
            raise InputError(
                f"{self.name} has no split '{split}': {reason(error)}. Use a form such as train[:90%]."
            ) from None
        splits = list(map(str, getattr(self.builder.config, "data_files", None) or self.builder.info.splits or ()))
        if split is None and len(splits) == 1:
            return splits[0]
        if splits and (split is None or not set(_split_names(split)) <= set(splits)):
            kind = f"no split '{split}'" if split else "more than one split; choose one with split"
            raise InputError(f"{self.name} has {kind}. Available: {', '.join(splits)}.")
        return split or "train"

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        """Turn the many exceptions of datasets, huggingface_hub, pyarrow and the network into an [`InputError`]."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            raise InputError(self._explain(error)) from None

    def _explain(self, error: Exception) -> str:
        messages = [str(link).strip() for link in (error, error.__cause__) if link is not None and str(link).strip()]
        message = " ".join(" ".join(messages).split()) or type(error).__name__
        if self.is_local:
            return f"{self.name} cannot be read: {message}"
        if "scripts are no longer supported" in message:
            what = f"is a script on the Hub, and scripts are not run. Try its data with revision: {PARQUET_BRANCH}"
        elif "gated" in message or "authenticated" in message:
            terms = f"https://huggingface.co/datasets/{self.path}"
            what = f"is gated: {message} Accept its terms at {terms} and log in with `hf auth login`"
        elif "doesn't exist on the Hub" in message:
            what = f"is not on the Hub, or is private: {message} Check the id, log in with `hf auth login`"
        elif is_network_error(error):
            what = f"cannot be reached on the Hub: {message}. Check the network, and that HF_HUB_OFFLINE is not set"
        else:
            what = f"cannot be read from the Hub: {message} Try again"
        return f"{self.name} {what}, or {LOCAL_FILES}."


def _split_names(split: str) -> list[str]:
    """The whole splits that a split is taken from: train and test for "train[:90%]+test"."""
    return [part.partition("[")[0].strip() for part in split.split("+")]


def _flat_features(features: "Features | dict[str, Any]") -> dict[str, object]:
    """The type of each column, including those in `translation`, whose own type names its languages."""
    nested = features.get(NESTED)
    languages = getattr(nested, "languages", None)
    inner = dict.fromkeys(languages) if languages else nested if isinstance(nested, dict) else {}
    return {**inner, **features}


def name_error(path: str) -> str | None:
    """Say what is wrong with a dataset's name, as far as can be told without the Hub; None if nothing is."""
    if error := path_error(path):
        return error
    folder = Path(path)
    if folder.is_file():
        return f"dataset: {path} is a file. Use file: {path}"
    if folder.is_dir():
        if any((folder / name).exists() for name in ("state.json", "dataset_dict.json")):
            return f"{path} was written by save_to_disk(). Write it with to_parquet() or to_json() instead."
        return None
    if path.startswith((".", "/", "~")) or path.count("/") > 1:
        return (
            f"{path} does not exist. Specify a folder that datasets.load_dataset() reads, or the id of a Hub dataset."
        )
    return None
