"""`hf-vaswani calibrate`: makes a model estimate the quality of its translations."""

import argparse
import json
from functools import partial
from pathlib import Path

from ..errors import InputError
from ..files import InputPath, atomic_write, collect_errors, read_json, writing
from .options import (
    INPUT_FILE,
    MODEL,
    add_language_options,
    add_speed_options,
    check_language_options,
    languages,
    option_names,
    up_to,
)

DESCRIPTION = """\
Translate a validation set, and store in the model's config.json how its probabilities predict the quality of its
translations: their sentence chrF, from 0 to 1. hf-vaswani translate --confidence, the pipeline with
return_confidence=True, and the page of hf-vaswani app then give this estimate with each translation. The text should
be like what will be translated, and not the training text."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    calibrate = commands.add_parser(
        "calibrate",
        help="make a model estimate the quality of its translations",
        usage="hf-vaswani calibrate MODEL --source FILE --reference FILE [options]",
        description=DESCRIPTION,
    )
    calibrate.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    calibrate.add_argument("--source", **INPUT_FILE, required=True, help="sentences, one per line; also .gz .zst")
    calibrate.add_argument("--reference", **INPUT_FILE, required=True, help="their translations, line by line")
    calibrate.add_argument(
        "--samples", type=up_to(1000, 0), default=8, metavar="N",
        help="compare each translation with N samples of the model: a better estimate, but each translation "
        "takes longer; 0: its probability and length alone, which takes no time (default: 8)",
    )  # fmt: skip
    add_speed_options(calibrate)
    add_language_options(calibrate)
    calibrate.set_defaults(run=run, saves_memory="Lower --batch_size or --num_workers.")


def run(options: argparse.Namespace) -> None:
    from ..data.sources.text_files import line_errors, read_lines
    from ..evaluation.calibration import calibrate
    from ..models.load import load
    from ..models.model_files import CONFIG_FILE
    from ..translator.pipeline import TranslationPipeline
    from .reports import progress_bar

    path = Path(options.model) / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{options.model} is not a folder with a model, whose {CONFIG_FILE} could be changed.")
    errors: list[str] = []
    sources, references = (
        collect_errors(errors, partial(read_lines, name)) for name in (options.source, options.reference)
    )
    errors += line_errors(options.reference, {options.source: sources, options.reference: references})
    if errors:
        raise InputError.of(errors)
    model, tokenizer = load(options.model)
    check_language_options(options, model, tokenizer)
    speed = {"batch_size": options.batch_size, "num_workers": options.num_workers}
    with option_names(), progress_bar(len(sources)) as bar:
        translator = TranslationPipeline(
            model, tokenizer=tokenizer, engine=options.engine, quantize=options.quantize, zero_shot=options.zero_shot,
            **languages(options),
        )  # fmt: skip
        report = calibrate(translator, sources, references, options.samples, progress=bar.update, **speed)
    config = read_json(path) | {"confidence": report.calibration.to_dict()}
    with writing(path), atomic_write(path.resolve()) as part:
        part.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(report)
