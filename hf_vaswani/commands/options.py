"""Options and their types that several commands share."""

import argparse

ENSEMBLE = "further models of the same vocabulary: the mean of all distributions counts"


def add_search_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num_beams", type=at_least_one, help="default: the model's own generation_config")
    parser.add_argument("--batch_size", type=at_least_one, help="most sentences translated together")


def search(options: argparse.Namespace) -> dict[str, int]:
    return {"num_beams": options.num_beams} if options.num_beams else {}


def at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value
