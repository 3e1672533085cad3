"""`hf-vaswani translate --pairs`: the options, the text that is translated, and the pairs that are written."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files import is_same_file
from .options import OUTPUT_FILE, finite, share

if TYPE_CHECKING:
    from ..data.sources.text_source import TextSource
    from ..ledger import Provenance
    from ..training.recipe.arguments import DataArguments
    from ..training.synthetic_pairs import Selection, Text

# Options that only choose among translations.
SELECTION = ("side", "keep_closest", "keep_share", "min_score")
# Output options, which are always the same and say nothing about how the pairs were made.
OUTPUT = {"pairs", "format", "scores", "confidence", "alignments", "split_sentences"}


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `--pairs` to the parser of `hf-vaswani translate`."""
    pairs = parser.add_argument_group(
        "translations as pairs to train on",
        "With --pairs, the same command resumes what was stopped, and does nothing once the pairs are there.",
    )
    pairs.add_argument(
        "--pairs",
        **OUTPUT_FILE,
        help="write pairs instead of translations, for the recipe key data.text: JSON lines, also .gz .zst. --input "
        "may also be such a file, or the folder of a run, for its training text",
    )
    pairs.add_argument(
        "--side",
        choices=["source", "target"],
        default="source",
        help="the side that the text is on: source, for its translations as targets (forward translation), or target, "
        "for its translations as sources (back-translation) (default: source)",
    )
    pairs.add_argument(
        "--keep_closest",
        choices=["chrf", "bleu"],
        help="of the --n_best translations of a text, only the one closest to the text's own, by this metric; "
        "needs pairs as --input",
    )
    pairs.add_argument("--keep_share", type=share, metavar="SHARE", help="only this share, with the best scores")
    pairs.add_argument(
        "--min_score",
        type=finite,
        metavar="SCORE",
        help="only translations with at least this score: the log-probability divided by the length penalty; with "
        "--mbr the utility, 0 to 100",
    )


def check_pair_options(options: argparse.Namespace) -> None:
    """Raise an `InputError` that lists what is wrong with the combination of `--pairs` and other options."""
    if options.pairs:
        errors = _pair_errors(options)
    else:
        given = [name for name in SELECTION if getattr(options, name) not in (None, "source")]
        errors = [f"--{name} needs --pairs FILE, a file of pairs to write" for name in given]
    if errors:
        raise InputError.of(errors)


def _pair_errors(options: argparse.Namespace) -> list[str]:
    from ..data.resumable_output import output_error

    errors = [error] if (error := output_error(options.pairs)) else []
    if options.input is None:
        errors.append("--pairs needs --input: a file of text or pairs, or the folder of a run for its training text")
    unused = [name for name in ("output", "scores", "confidence", "alignments", "prefix") if getattr(options, name)]
    errors += [f"--{name} has no effect with --pairs; leave it out" for name in unused]
    if options.input and is_same_file(options.pairs, options.input):
        errors.append(f"--pairs {options.pairs} is the input. Choose another file for the pairs.")
    if options.keep_closest and (options.n_best or 1) == 1:
        errors.append("--keep_closest chooses among several translations: raise --n_best")
    return errors


def candidates_file(pairs: str) -> str:
    """The file of all translations, from which the pairs are chosen once it is complete."""
    path = Path(pairs)
    return str(path.with_name(f".{path.name}.translations.jsonl"))


def _selection(options: argparse.Namespace) -> "Selection":
    from ..training.synthetic_pairs import Selection

    return Selection(**{name: getattr(options, name) for name in SELECTION})


def iterate_texts(options: argparse.Namespace) -> "Iterator[Text]":
    """The texts to translate, without blank ones, each with its own translations if it comes from pairs."""
    from ..data.sources.text_files import iterate_lines
    from ..data.sources.text_source import iterate_pairs
    from ..text.normalization import is_blank
    from ..training.setup.splits import stream_of
    from ..training.synthetic_pairs import texts_from_pairs

    data, sources = _open_input(options.input)
    if data:
        sources = _in_language(options, data, sources)
        return texts_from_pairs((pair for source in sources for pair in stream_of(data, source)), options.side)
    if sources:
        return texts_from_pairs(iterate_pairs(sources[0], (None, None)), options.side)
    return ((line, []) for line in iterate_lines(options.input) if not is_blank(line))


def _in_language(
    options: argparse.Namespace, data: "DataArguments", sources: "list[TextSource]"
) -> "list[TextSource]":
    """The sources of a run that have the languages to translate, turned such that the text is on its side.

    Raises:
        InputError: there are several pairs of languages, and none is chosen, or the run has no such text.
    """
    from ..training.setup.directions import direction_of, name_of
    from ..training.setup.splits import swapped

    if not data.has_directions:
        return sources
    chosen, found = (options.source_language, options.target_language), {}
    for source in sources:
        for each in (source, swapped(source)) if any(chosen) else (source,):
            text, translation = direction_of(data, each)[:: 1 if options.side == "source" else -1]
            if all(code in (None, own) for code, own in zip(chosen, (text, translation))):
                found.setdefault((text, translation), []).append(each)
    if len(found) != 1:
        names = ", ".join(name_of(direction_of(data, source)) for source in sources)
        raise InputError(
            f"--input {options.input} has text in {names}: choose what to translate with --source_language and "
            "--target_language."
        )
    return next(iter(found.values()))


def _open_input(path: str) -> "tuple[DataArguments | None, list[TextSource]]":
    """What the recipe of a run says about its text, `None` for a file; and the sources of pairs, none for lines.

    Raises:
        InputError: if it is a folder without a run.
    """
    from ..data.sources.text_files import COMPRESSED
    from ..data.sources.text_source import TextSource
    from ..training.checkpoints.artifacts import RECIPE_FILE, read_stored
    from ..training.recipe.arguments import DataArguments
    from ..training.setup.splits import own_sources

    file = Path(path)
    if not file.is_dir():
        plain = file.with_suffix("") if file.suffix.lower() in COMPRESSED else file
        is_pairs = plain.suffix.lower() == ".jsonl"
        return None, [TextSource(file=path, source_column="source", target_column="target")] if is_pairs else []
    if not (file / RECIPE_FILE).is_file():
        raise InputError(
            f"--input {path} is not the folder of a run: it has no {RECIPE_FILE}. Specify a file of text or "
            "pairs, or the folder of a run."
        )
    stored, known = read_stored(file / RECIPE_FILE), DataArguments.model_fields
    data = DataArguments(**{name: value for name, value in stored.get("data", {}).items() if name in known})
    return data, own_sources(data)


def provenance(options: argparse.Namespace, settings: dict[str, object]) -> "Provenance":
    """The settings and inputs of the pairs, by which they are recognized.

    Args:
        settings: the options of the search.
    """
    from ..data.sources.text_source import digest, text_file_digest
    from ..ledger import Input, Provenance, make_input
    from ..training.setup.splits import held_out_settings
    from ..translator.translator_settings import content_digest

    models = [make_input("model", name, content_digest(name)) for name in (options.model, *options.ensemble)]
    if options.second_model:
        models.append(make_input("second_model", options.second_model, content_digest(options.second_model)))
    if options.rerank_with:
        models.append(make_input("rerank_with", options.rerank_with, content_digest(options.rerank_with)))
    data, sources = _open_input(options.input)
    digests = " ".join(map(digest, sources)) if sources else text_file_digest(options.input)
    if data:
        held_out = f" {held_out_settings(data)!r}" if held_out_settings(data) else ""
        name = f"the training text of {Path(options.input).resolve().name}"
        text = Input(role="input", name=name, digest=digests + held_out)
    else:
        text = make_input("input", options.input, digests)
    used = {name: value for name, value in settings.items() if name not in OUTPUT and value not in (None, False)}
    chosen = {name: value for name, value in asdict(_selection(options)).items() if value is not None}
    return Provenance(command="translate", settings={**used, **chosen}, inputs=[*models, text])


def are_finished(options: argparse.Namespace, now: "Provenance") -> bool:
    """Whether the pairs are there, made in the same way.

    Raises:
        InputError: if they were made in another way, or if something else is in their place.
    """
    from ..ledger import is_finished

    if options.overwrite or Path(options.output).exists():  # the translations, until everything is done
        return False
    return is_finished(Path(options.pairs), now, "Replace it with --overwrite, or choose another file.")


def finish_pairs(options: argparse.Namespace, made: "Provenance", seconds: float) -> None:
    """Choose the pairs among the translations, write them with their provenance, and remove the translations."""
    from ..files import writing
    from ..training.synthetic_pairs import write_pairs

    candidates, pairs = Path(options.output), Path(options.pairs)
    with writing(pairs, "run the same command again to continue"):
        # Whenever the process is killed, the translations or both files are there.
        counts = write_pairs(candidates, pairs, _selection(options), iterate_texts(options))
        made.model_copy(update={"results": asdict(counts), "seconds": seconds}).write(pairs)
    candidates.unlink(missing_ok=True)
    print(f"{pairs}: {counts.in_words()}", file=sys.stderr)
