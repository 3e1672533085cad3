"""`hf-vaswani score`: computes the probabilities that a model assigns to given translations."""

import argparse
import json
import math
import sys
from functools import partial
from typing import TYPE_CHECKING

from ..backends import BACKENDS
from ..errors import InputError, counted
from ..files import InputPath, collect_errors, descriptor_of, is_same_file
from .options import (
    ENSEMBLE,
    INPUT_FILE,
    MODEL,
    add_language_options,
    batch,
    check_language_options,
    languages,
    length,
    option_names,
)
from .reports import LineReports, progress_bar, write_result

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..translator.pairs import PairScore

DESCRIPTION = """\
Write, for each pair of lines, the probability of the target as a translation of the source. Text has three columns
separated by tabs: natural log-probability, number of target tokens including the end token, and the score of beam
search, which is the log-probability divided by the model's length penalty. A pair that cannot be scored gets "nan", or
null in JSON, and a warning."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    score = commands.add_parser(
        "score",
        help="compute a model's probabilities of given translations",
        usage="hf-vaswani score MODEL --source FILE --target FILE [options]",
        description=DESCRIPTION,
    )
    score.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    score.add_argument("--source", **INPUT_FILE, required=True, help="source sentences, one per line; also .gz .zst")
    score.add_argument("--target", **INPUT_FILE, required=True, help="their translations, line by line; also .gz .zst")
    score.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="three columns, or one JSON object per line (default: text)",
    )
    score.add_argument(
        "--tokens", action="store_true", help="also the log-probability of each token; needs --format json"
    )
    score.add_argument("--ensemble", type=InputPath, nargs="+", default=[], metavar="MODEL", help=ENSEMBLE)
    score.add_argument(
        "--batch_tokens", type=batch, metavar="N", help="tokens per batch, padding included (default: 4096)"
    )
    score.add_argument(
        "--max_length",
        type=length,
        default=1024,
        metavar="N",
        help="do not score pairs with more tokens on either side (default: %(default)s)",
    )
    score.add_argument(
        "--engine",
        choices=["auto", "torch", *BACKENDS],
        default="torch",
        help="what computes: PyTorch; CTranslate2, after converting the model once; or auto: CTranslate2 where "
        "it gives the same results and there is enough text (default: torch)",
    )
    add_language_options(score)
    score.set_defaults(run=run, saves_memory="Lower --batch_tokens or --max_length.")


def run(options: argparse.Namespace) -> None:
    from ..data.sources.text_files import iterate_parallel
    from ..models.load import check_gives_probabilities, load_ensemble
    from ..translator.pairs import score_pairs

    _check(options)
    model, tokenizer = load_ensemble([options.model, *options.ensemble])
    check_gives_probabilities(options.model, model)
    check_language_options(options, model, tokenizer, takes_own_target=False)
    for warning in _warnings(options, model, tokenizer):
        print(warning, file=sys.stderr)
    reports, pairs, total, tokens = LineReports(), 0, 0.0, 0
    files = (options.source, options.target)
    with option_names(), progress_bar() as bar:
        for score in score_pairs(
            model,
            tokenizer,
            iterate_parallel(*files, reports=tuple(reports.of(path) for path in files)),
            batch_tokens=options.batch_tokens,
            max_length=options.max_length,
            with_tokens=options.tokens,
            **languages(options),
            zero_shot=options.zero_shot,
            engine=options.engine,
            report=reports.of(options.source),
        ):
            write_result(_as_json(score) if options.format == "json" else _as_text(score))
            bar.update()
            if score is not None:
                pairs, total, tokens = pairs + 1, total + score.log_probability, tokens + score.length
    print(end="", flush=True)
    reports.summarize()
    if tokens:
        print(
            f"{counted(pairs, 'pair')} scored; perplexity {math.exp(-total / tokens):.4g} per target token",
            file=sys.stderr,
        )


def _warnings(
    options: argparse.Namespace, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase"
) -> list[str]:
    from ..data.sources.sides import language_warning
    from ..text.languages import own_languages
    from .text_warnings import file_warnings, first_lines

    requested = options.source_language, options.target_language
    source, target = own_languages(model.config, tokenizer, requested)
    warnings = file_warnings(options.source, requested, model, tokenizer)
    warnings += filter(None, [language_warning(options.target, first_lines(options.target), target, source)])
    if is_same_file(options.source, options.target):
        warnings.append(f"warning: {options.source} is given as source and as target, so the scores are meaningless")
    return warnings


def _check(options: argparse.Namespace) -> None:
    from ..data.sources.text_files import check_lines

    errors: list[str] = []
    output = descriptor_of(sys.stdout)
    for path in (options.source, options.target):
        collect_errors(errors, partial(check_lines, path))
        if output is not None and is_same_file(path, output):
            errors.append(f"Standard output is {path}. Redirect it to another file.")
    if options.tokens and options.format == "text":
        errors.append("--tokens needs --format json.")
    if errors:
        raise InputError.of(errors)


def _as_text(score: "PairScore | None") -> str:
    if score is None:
        return "nan\t0\tnan\n"
    return f"{score.log_probability:.6f}\t{score.length}\t{score.score:.6f}\n"


def _as_json(score: "PairScore | None") -> str:
    if score is None:
        return "null\n"
    record = {"log_probability": score.log_probability, "length": score.length, "score": score.score}
    if score.tokens is not None:
        record["tokens"] = score.tokens
    return json.dumps(record, ensure_ascii=False) + "\n"
