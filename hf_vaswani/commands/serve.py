"""`hf-vaswani serve`: a translation server for the clients of LibreTranslate and DeepL."""

import argparse
from typing import TYPE_CHECKING

from .. import load
from ..errors import InputError
from .options import add_engine_option, batch, option_names, up_to

if TYPE_CHECKING:
    from ..server.arguments import ServerArguments

DESCRIPTION = """\
Serve models to the clients of LibreTranslate and DeepL, on this machine or on a Ray cluster. Texts of all clients that
wait are translated together. Needs pip install "hf-vaswani[serve]", and for a cluster "hf-vaswani[ray]"."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "serve",
        help="serve models over HTTP to the clients of LibreTranslate and DeepL",
        usage="hf-vaswani serve MODEL [MODEL ...] [options]",
        description=DESCRIPTION,
    )
    parser.add_argument(
        "models", nargs="+", metavar="MODEL",
        help="folder or Hub id; with its languages, if it does not know them: de-en=MODEL",
    )  # fmt: skip
    parser.add_argument(
        "--via", metavar="CODE",
        help="also translate pairs that no model has, over this language: with --via en, es to de by es-en and en-de",
    )  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=up_to(65535), default=5000, metavar="N", help="port to listen on (default: 5000)"
    )
    add_engine_option(parser)
    parser.add_argument("--quantize", choices=["int8"], help="compute with 8-bit weights")
    parser.add_argument(
        "--keep", nargs="+", default=[], metavar="KIND_OR_REGEX",
        help="what stays as it is in all translations, as for hf-vaswani translate",
    )  # fmt: skip
    parser.add_argument("--replicas", type=batch, default=1, metavar="N", help="processes a model (default: 1)")
    parser.add_argument("--max_replicas", type=batch, metavar="N", help="start more under load, up to N")
    parser.add_argument("--threads", type=batch, metavar="N", help="threads a process (default: all cores, shared)")
    parser.add_argument("--gpus", type=float, default=0, metavar="N", help="GPUs a process (default: 0)")
    parser.add_argument("--keys", metavar="FILE", help="JSON file of API keys; without one, everybody is served")
    parser.add_argument(
        "--glossaries", metavar="FOLDER", help="keep glossaries that clients create here (default: in memory)"
    )
    parser.add_argument(
        "--log_file",
        metavar="FILE",
        help="line of JSON per request (default: standard error, unless it is a terminal)",
    )
    limits = parser.add_argument_group("limits of a request")
    limits.add_argument("--characters", type=batch, default=100_000, metavar="N", help="characters (default: 100,000)")
    limits.add_argument("--texts", type=batch, default=10_000, metavar="N", help="texts and lines (default: 10,000)")
    limits.add_argument(
        "--seconds", type=batch, default=300, metavar="N", help="seconds that it may take (default: 300)"
    )
    ray = parser.add_argument_group("several machines, by Ray Serve")
    ray.add_argument(
        "--address",
        metavar="ADDRESS",
        help="cluster to serve on, such as auto (default: this machine, without Ray)",
    )
    ray.add_argument(
        "--print_config",
        action="store_true",
        help="print a config file for serve deploy and KubeRay instead",
    )
    parser.set_defaults(run=run, reloads_at_hangup=True, needs_torch=False)


def run(options: argparse.Namespace) -> None:
    from ..runtime.imports import import_extra

    for library in ("fastapi_offline", "pebble", "prometheus_client", "py3langid", "langcodes", "python_multipart"):
        import_extra(library, "serve")
    from ..server.accounts import Limits
    from ..server.arguments import ServerArguments
    from ..server.launch import launch

    if options.max_replicas and options.max_replicas < options.replicas:
        raise InputError(f"--max_replicas {options.max_replicas} is less than --replicas {options.replicas}")
    arguments = ServerArguments(
        limits=Limits(characters=options.characters, texts=options.texts, seconds=options.seconds),
        engine=options.engine or "auto",
        **{name: getattr(options, name) for name in ServerArguments.model_fields if name not in ("engine", "limits")},
    )
    with option_names():
        if options.address or options.print_config:
            _run_on_ray(arguments, options)
        else:
            launch(arguments, options.host, options.port)


def _run_on_ray(arguments: "ServerArguments", options: argparse.Namespace) -> None:
    from ..runtime.imports import import_extra

    load()
    import_extra("ray")
    from ..server.application import check_arguments
    from ..server.cluster import config_file, launch_on_cluster

    if options.print_config:
        check_arguments(arguments)
        print(config_file(arguments, options.host, options.port), end="")
    else:
        launch_on_cluster(arguments, options.host, options.port, options.address)
