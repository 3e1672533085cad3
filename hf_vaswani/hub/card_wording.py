"""What a card says about a model's tokenizer, its training and its costs, in words."""

from ..configuration.keys import Keys, Sections
from ..errors import counted
from ..ledger import Input
from ..records.run_report import RunReport
from .repository import file_names

KINDS = {
    "BPE": "byte-pair encoding", "Unigram": "unigram language model", "WordPiece": "word pieces", "WordLevel": "words",
}  # fmt: skip
# Keys of section `tokenizer` that change how text is read, with what they do.
TREATMENT = {
    "lowercase": "all text lowercased", "byte_fallback": "unknown characters as bytes",
}  # fmt: skip
DROPOUT = {
    "dropout": "dropout", "embedding_dropout": "dropout of embeddings", "attention_dropout": "dropout on attention",
    "activation_dropout": "dropout inside the FFN", "encoder_word_dropout": "dropout of source tokens",
    "decoder_word_dropout": "dropout of target tokens", "encoder_layerdrop": "LayerDrop in the encoder",
    "decoder_layerdrop": "LayerDrop in the decoder",
}  # fmt: skip
# The keys that name the model whose tokenizer a run uses.
TOKENIZER_ROLES = ("tokenizer.path", "training.start_from")
KWH = 3.6e6
# Grams of CO2 per kWh of the world's electricity in 2018 (International Energy Agency, 2019).
CARBON_INTENSITY = 475


def tokenizer_words(recipe: Sections, report: RunReport) -> str:
    """Kind and sizes of the tokenizer, and how it reads text; arguments as in [`card_text`]."""
    tokenizer = report.tokenizer
    sizes = (
        f"one vocabulary of {tokenizer.source_tokens:,} for both languages"
        if tokenizer.joint
        else f"vocabularies of {tokenizer.source_tokens:,} (source) and {tokenizer.target_tokens:,} (target)"
    )
    settings = _tokenizer_settings(recipe, report.inputs)
    treatment = [words for key, words in TREATMENT.items() if settings.get(key)]
    if settings.get("pre_tokenizer") == "whitespace":
        treatment.append("words split only at whitespace")
    if settings.get("word_boundary") == "after":
        treatment.append("word-boundary markers at the ends of words")
    if settings.get("whitespace") == "keep":
        treatment.append("all whitespace kept")
    if settings.get("normalization") not in (None, "none"):
        treatment.append(f"Unicode form {settings['normalization'].upper()}")
    return ", ".join([KINDS.get(tokenizer.type, tokenizer.type), sizes, *treatment])


def _tokenizer_settings(recipe: Sections, inputs: list[Input]) -> Keys:
    """The keys by which a run's tokenizer was learned, by the run itself or an earlier one; empty if unknown."""
    if not (recipe.get("tokenizer", {}).get("path") or recipe.get("training", {}).get("start_from")):
        return recipe.get("tokenizer", {})
    earlier = [source.made for source in inputs if source.role in TOKENIZER_ROLES and source.made]
    return _tokenizer_settings(earlier[0].settings, earlier[0].inputs) if earlier else {}


def optimization(training: Keys, processes: list[int] | None) -> str:
    """How the weights are updated, and with how much text per step.

    Args:
        training: the section of the recipe.
        processes: numbers of processes that trained; `None` if unknown.
    """
    beta1, beta2 = training["adam_beta1"], training["adam_beta2"]
    decay, clipping, average = (training[key] for key in ("weight_decay", "max_grad_norm", "ema_decay"))
    adam, weight_decay = ("AdamW", f", weight decay {decay:g}") if decay else ("Adam", "")
    betas = f"betas {beta1:g} and {beta2:g}"
    if training.get("optim") == "muon":
        optimizers = f"Muon for hidden matrices and {adam}, {betas}, for other parameters{weight_decay}"
    else:
        bits = " in 8 bits" if training.get("optim") == "adam_8bit" else ""
        optimizers = f"{adam}{bits}{weight_decay}, {betas}"
    settings = [
        optimizers,
        f"learning rate {_learning_rate(training)}",
        f"steps of {_step_size(training, processes)}",
    ]
    if clipping:
        settings.append(f"gradients clipped to norm {clipping:g}")
    if teachers := training.get("distill_from"):
        names = " and ".join(file_names(teachers))
        share = f"{100 * training['distill_weight']:.3g}% of the loss"
        k = training.get("distill_top_k")
        kept = f", cut to the {'most probable one' if k == 1 else f'{k} most probable ones'}" if k else ""
        settings.append(f"{share} against the distributions of {names} over the next token{kept}")
    if average:
        settings.append(f"moving average of the weights, decay {average:g}")
    return "; ".join(settings)


def _learning_rate(training: Keys) -> str:
    schedule, peak, warmup = training["lr_scheduler_type"], f"{training['learning_rate']:g}", training["warmup_steps"]
    if schedule == "paper":
        rate = f"{peak} × equation 3"
    else:
        rate = f"{peak if schedule == 'constant' else f'up to {peak}'}, {schedule}"
    return rate + (f", {counted(warmup, 'step')} of warm-up" if warmup else "")


def _step_size(training: Keys, processes: list[int] | None) -> str:
    """The most text that a step sees in all its forward passes.

    It counts a single device if the number of processes is unknown or has changed.
    """
    is_known = processes is not None and len(processes) == 1
    passes = training["gradient_accumulation_steps"] * (processes[0] if is_known else 1)
    size = f"up to {training['max_tokens'] * passes:,} tokens a side, padding included"
    if training["max_sentences"]:
        size += f", and {counted(training['max_sentences'] * passes, 'pair')}"
    size += f", in {passes:,} forward passes" if passes > 1 else ""
    return size if is_known else f"{size} on each device"


def regularization(recipe: Sections, report: RunReport) -> str:
    """What keeps the model from memorizing the text; arguments as in [`card_text`]."""
    of, training = report.architecture, recipe["training"]
    values = {words: getattr(of, key) for key, words in DROPOUT.items()}
    values["BPE dropout"] = recipe["tokenizer"].get("bpe_dropout")
    augmentation = {name: value for name, value in recipe.get("augmentation", {}).items() if isinstance(value, float)}
    values |= {f"{name.replace('_', ' ')} in training pairs": share for name, share in augmentation.items()}
    values["R-Drop, alpha"] = training.get("r_drop")
    values["guided alignment, weight"] = training.get("guided_alignment")
    settings = [f"{label} {value:g}" for label, value in values.items() if value]
    return "; ".join([*settings, f"label smoothing {of.label_smoothing:g}"])


def energy(report: RunReport) -> str:
    """The energy that training took, as far as it is known."""
    if not report.energy:
        return "not measured"
    names = {"cpu": "CPUs", "gpu": "GPUs", "ram": "memory"}
    parts = []
    for kind, (joules, seconds) in report.energy.items():
        # The last step and the measurement do not end at quite the same moment.
        share = "" if seconds >= 0.98 * report.seconds else f", in {duration(seconds)} of training alone"
        parts.append(f"{joules / KWH:.3g} kWh ({names[kind]}{share})")
    which = "first machine alone" if any(" machines" in machine for machine in report.machines) else "whole machine"
    return f"{' and '.join(parts)} of the {which}, including other users' processes"


def emissions(recipe: Sections, report: RunReport) -> dict[str, str | float] | None:
    """The emissions for a card's metadata, estimated from the energy; `None` if no energy was measured."""
    if not report.energy:
        return None
    start = recipe["training"]["start_from"]
    kwh = sum(joules for joules, _ in report.energy.values()) / KWH
    return {
        "emissions": float(f"{kwh * CARBON_INTENSITY:.3g}"),
        "source": f"{kwh:.3g} kWh, measured by codecarbon, at the world's mean of {CARBON_INTENSITY} g CO2 per kWh",
        "training_type": "fine-tuning" if start and not report.has_made("training.start_from") else "pre-training",
        "hardware_used": "; then ".join(report.machines) or "not recorded",
    }


def duration(seconds: float) -> str:
    """A duration in hours, minutes or seconds, as people would say it."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} hours"
    if seconds >= 60:
        return f"{seconds / 60:.1f} minutes"
    return counted(round(seconds), "second") if round(seconds) else "less than a second"


def scientific(value: float) -> str:
    """A number as the paper writes costs: 3.3·10^18."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10^{int(exponent)}"


def search_name(num_beams: int) -> str:
    """A search by its number of beams."""
    return f"beam {num_beams}" if num_beams > 1 else "greedy"


def mbr_search(utility: str, samples: int) -> str:
    """Minimum Bayes risk decoding, as the name of a search."""
    return f"minimum Bayes risk ({utility}) of {samples} samples"
