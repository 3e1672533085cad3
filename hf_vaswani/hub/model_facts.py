"""What a card says of a model's architecture and of its training, a line a fact."""

from typing import Any

from ..errors import counted
from .markdown import plain
from .run_report import FinalWeights, RunReport
from .shared_recipe import has_new_tokenizer

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
KWH = 3.6e6


def architecture_facts(recipe: dict[str, Any], report: RunReport) -> list[str]:
    """Tokenizer, layers, positions, embeddings and size; arguments as of [`card_text`]."""
    of, tokenizer = report.architecture, report.tokenizer
    kind = KINDS.get(tokenizer.type, tokenizer.type)
    sizes = (
        f"one vocabulary of {tokenizer.source_tokens:,} for both languages"
        if tokenizer.joint
        else f"vocabularies of {tokenizer.source_tokens:,} (source) and {tokenizer.target_tokens:,} (target)"
    )
    # A tokenizer that was made before was used as it is, whatever these keys say.
    settings = recipe["tokenizer"] if has_new_tokenizer(recipe) else {}
    treatment = [words for key, words in TREATMENT.items() if settings.get(key)]
    if settings.get("pre_tokenizer") == "whitespace":
        treatment.append("words end at whitespace alone")
    if settings.get("word_boundary") == "after":
        treatment.append("marks at the ends of words")
    if settings.get("normalization") not in (None, "none"):
        treatment.append(f"Unicode form {settings['normalization'].upper()}")
    positions = of.position_type
    if positions == "learned":
        positions += f", up to {of.max_position_embeddings:,} tokens"
    sharing = (
        "one matrix for source, target and output projection"
        if of.share_encoder_decoder_embeddings and of.tie_word_embeddings
        else "one matrix for source and target, another for the output projection"
        if of.share_encoder_decoder_embeddings
        else "a matrix for the source, one for target and output projection"
        if of.tie_word_embeddings
        else "a matrix each for source, target and output projection"
    )
    pair = lambda key: _both(getattr(of, f"encoder_{key}"), getattr(of, f"decoder_{key}"))  # noqa: E731
    widths = [f"{key} {value:,}" for key in ("d_k", "d_v") if (value := getattr(of, key))]
    heads = pair("attention_heads") + (f" of {', '.join(widths)}" if widths else "")
    return [
        f"Tokenizer: {', '.join([kind, sizes, *treatment])}",
        f"{of.encoder_layers} + {of.decoder_layers} layers (encoder + decoder), {of.norm_position}-norm; "
        f"d_model {of.d_model:,}; heads {heads}; feed-forward {pair('ffn_dim')}",
        f"Positions: {positions}",
        f"Embeddings: {sharing}",
        f"{report.parameters:,} parameters",
    ]


def _both(encoder: int, decoder: int) -> str:
    return f"{encoder:,}" if encoder == decoder else f"{encoder:,} + {decoder:,}"


def training_facts(recipe: dict[str, Any], report: RunReport) -> list[str]:
    """Steps, text, optimization, machines and costs; arguments as of [`card_text`]."""
    seen, training = report.seen, recipe["training"]
    facts = [f"{counted(report.steps, 'step')} in {duration(report.seconds)}"]
    if report.epochs:
        facts[0] += f", {report.epochs:.1f} epochs"
    if seen:
        mean = seen.target_tokens / max(report.steps, 1)
        facts.append(
            f"{seen.source_tokens:,} source and {seen.target_tokens:,} target tokens, padding left out; on "
            f"average {mean:,.0f} target tokens a step"
        )
    for settings in (_optimization(training, report.processes), _regularization(recipe, report)):
        facts.append("; ".join(f"{label} {value}" for label, value in settings))
    facts.append(f"Hardware: {'; then '.join(map(plain, report.machines)) or 'not recorded'}; {report.precision}")
    facts.append(_energy(report))
    if report.flops:
        facts.append(
            f"About {_scientific(report.flops)} floating-point operations, estimated by 6·N·D (weights of "
            "matrices × tokens that pass them; attention itself is left out)"
        )
    steps = [f"{step:,}" for step in report.averaged]
    what = "moving averages of the weights" if training["ema_decay"] else "weights"
    if len(steps) > 1:
        facts.append(f"The model is the mean of the {what} after steps {', '.join(steps[:-1])} and {steps[-1]}")
    else:
        facts.append(f"The model has the {what} after step {steps[0]}")
    facts[-1] += _compared(report.final_weights)
    return facts


def _compared(final_weights: FinalWeights | None) -> str:
    """What the model was chosen from, with validation losses; empty where it was not."""
    compared = final_weights.compared if final_weights else []
    losses = {entry.weights: f"{entry.validation_loss:.4f}" for entry in compared}
    if len(losses) < 2:
        return ""
    chosen = losses.pop(final_weights.weights)
    others = ", ".join(f"{loss} of {name}" for name, loss in losses.items())
    return f", chosen by validation loss: {chosen}, against {others}"


def _optimization(training: dict[str, Any], processes: list[int] | None) -> list[tuple[str, str]]:
    """How weights are moved, and by how much text at once, as labels and values.

    Args:
        processes: numbers of them that trained; `None` where that is not known.
    """
    beta1, beta2 = training["adam_beta1"], training["adam_beta2"]
    decay, clipping, average = (training[key] for key in ("weight_decay", "max_grad_norm", "ema_decay"))
    settings = [
        (f"AdamW, weight decay {decay:g}, betas" if decay else "Adam, betas", f"{beta1:g} and {beta2:g}"),
        ("learning rate", _learning_rate(training)),
        ("steps of", _step_size(training, processes)),
    ]
    if clipping:
        settings.append(("gradients clipped to norm", f"{clipping:g}"))
    if average:
        settings.append(("moving average of the weights, decay", f"{average:g}"))
    return settings


def _learning_rate(training: dict[str, Any]) -> str:
    schedule, peak, warmup = training["lr_scheduler_type"], f"{training['learning_rate']:g}", training["warmup_steps"]
    if schedule == "paper":
        rate = f"{peak} × equation 3"
    else:
        rate = f"{peak if schedule == 'constant' else f'up to {peak}'}, {schedule}"
    return rate + (f", {warmup:,} steps of warm-up" if warmup else "")


def _step_size(training: dict[str, Any], processes: list[int] | None) -> str:
    """The most that a step is computed from, in all its forward passes; those of a single device where the number
    of processes is not known, or has changed."""
    is_known = processes is not None and len(processes) == 1
    passes = training["gradient_accumulation_steps"] * (processes[0] if is_known else 1)
    size = f"up to {training['max_tokens'] * passes:,} tokens a side, padding included"
    if training["max_sentences"]:
        size += f", and {training['max_sentences'] * passes:,} pairs"
    size += f", in {passes:,} forward passes" if passes > 1 else ""
    return size if is_known else f"{size} on each device"


def _regularization(recipe: dict[str, Any], report: RunReport) -> list[tuple[str, str]]:
    """What keeps the model from learning the text by heart, as labels and values."""
    of, training = report.architecture, recipe["training"]
    values = {words: getattr(of, key) for key, words in DROPOUT.items()}
    values["BPE dropout"] = recipe["tokenizer"].get("bpe_dropout")
    values["R-Drop, alpha"] = training.get("r_drop")
    settings = [(label, f"{value:g}") for label, value in values.items() if value]
    if training.get("r_drop") and training.get("r_drop_from", 1) > 1:
        settings.append(("R-Drop from step", f"{training['r_drop_from']:,}"))
    return [*settings, ("label smoothing", f"{of.label_smoothing:g}")]


def _energy(report: RunReport) -> str:
    """Energy as far as it is known."""
    if not report.energy:
        return "Energy: not measured"
    names = {"cpu": "CPUs", "gpu": "GPUs", "ram": "memory"}
    parts = []
    for kind, (joules, seconds) in report.energy.items():
        # The end of the last step and that of the measurement are not quite the same moment.
        share = "" if seconds >= 0.98 * report.seconds else f", in {duration(seconds)} of training alone"
        parts.append(f"{joules / KWH:.3g} kWh ({names[kind]}{share})")
    which = "first machine alone" if any(" machines" in machine for machine in report.machines) else "whole machine"
    return f"Energy: {' and '.join(parts)} of the {which}, whoever used it"


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"


def _scientific(value: float) -> str:
    """As the paper writes costs: 3.3 · 10^18."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10^{int(exponent)}"
