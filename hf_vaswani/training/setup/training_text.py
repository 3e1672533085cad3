"""What the training text is like, which a model stores in its config: the pipeline must know what it can translate."""

from ...core.configuration_vaswani import VaswaniConfig
from ...core.pipeline_sentences import split_sentences
from ...data.sources.parallel_files import Pair
from ..optimization.steps import Corpus

FIELDS = ("longest_training_source", "multi_sentence_share", "length_ratio")


def describe_training_text(config: VaswaniConfig, corpus: Corpus, sample: list[Pair]) -> None:
    """Set the fields of a config that describe the training text.

    Args:
        corpus: the training pairs; those of a stream are not counted, so that its longest source is unknown.
        sample: pairs from all parts of the text.
    """
    sources, targets = zip(*sample)
    config.longest_training_source = corpus.longest_source
    several = [source for source in sources if len(split_sentences(source.strip())) > 1]
    config.multi_sentence_share = round(len(several) / len(sources), 4)
    sizes = [sum(len(text.encode("utf-8", "replace")) for text in side) for side in (sources, targets)]
    config.length_ratio = round(max(sizes[1], 1) / max(sizes[0], 1), 4)


def copy_training_text(config: VaswaniConfig, other: VaswaniConfig) -> None:
    """Set the fields that describe the training text to those of another config."""
    for name in FIELDS:
        setattr(config, name, getattr(other, name))
