"""A training from recipe to finished folder: the one function behind every training command."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin, broadcast_object_list
from transformers import PreTrainedTokenizerFast, set_seed

from ..configuration_vaswani import VaswaniConfig
from ..data.batches import TokenBudgetBatches
from ..data.encoding import encode_pairs
from ..data.parallel_text import Pair
from ..errors import InputError
from ..evaluation.score import Score, bleu
from ..hub.card import write_card
from ..modeling_vaswani import VaswaniForConditionalGeneration
from .checkpoint import average_weights, checkpoint_folders, set_weights
from .loop import TrainingLoop
from .prepare import (
    CHECKPOINTS,
    begin_output,
    build_model,
    is_resumed,
    load_splits,
    open_tokenizer,
    text_fingerprints,
)
from .recipe import Recipe

RESULTS_FILE = "results.json"
TRANSLATIONS_FILE = "test_translations.txt"
EXAMPLES = 8


@dataclass(frozen=True)
class Results:
    """What a training came to.

    Attributes:
        folder: what `from_pretrained` and `pipeline` load.
        update, minutes: of training.
        parameters: of the model.
        validation_loss: negative log-likelihood per target token of the final, averaged model.
        test: BLEU on the test set, where the recipe has one.
        examples: some test sentences: source, translation, reference.
    """

    folder: Path
    update: int
    minutes: float
    parameters: int
    validation_loss: float
    test: Score | None
    examples: list[tuple[str, str, str]]

    def to_dict(self) -> dict[str, Any]:
        test = {"test_bleu": self.test.value, "test_bleu_signature": self.test.signature} if self.test else {}
        names = ("update", "minutes", "parameters", "validation_loss")
        return {**{name: getattr(self, name) for name in names}, **test}

    def report(self) -> str:
        """What a reader wants to see at the end: example translations, the score, and how to go on."""
        lines = []
        for source, translation, reference in self.examples:
            lines += [
                f"source       {source}",
                f"translation  {translation}",
                f"reference    {reference}",
                "",
            ]
        lines.append(f"{self.update:,} updates in {self.minutes:.1f} minutes; {self.parameters:,} parameters")
        lines.append(f"validation loss {self.validation_loss:.4f} per target token")
        if self.test:
            lines.append(f"test {self.test}")
        lines += [
            "",
            "Go on in Python with:",
            "",
            *USE.format(folder=quoted(str(self.folder)), text=quoted(self._example_text())).splitlines(),
        ]
        return "\n".join(lines)

    def _example_text(self) -> str:
        return self.examples[0][0] if self.examples else "…"


USE = """\
    import hf_vaswani
    from transformers import pipeline

    translator = pipeline("translation", model={folder})
    print(translator({text})[0]["translation_text"])"""


def quoted(text: str) -> str:
    """Text as it stands in Python code."""
    return json.dumps(text, ensure_ascii=False)


def train(recipe: Recipe) -> Results | None:
    """Train a model, or go on with the same training, and write the final model into `training.output_dir`.

    The folder then holds the model with the mean of the last checkpoints' weights, its tokenizer,
    `generation_config.json`, a model card, translations of the test set and `results.json`.

    Returns:
        The results, in the main process; `None` in the others.

    Raises:
        InputError: what the user can put right, before any long work starts.
    """
    splits = load_splits(recipe.data)
    # One step, whatever the launcher is told: the loop divides by the tokens of the whole update itself.
    accelerator = Accelerator(
        mixed_precision=recipe.training.mixed_precision,
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        # LayerDrop leaves out other layers in each process, whose gradients DDP would wait for.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=drops_layers(recipe))],
    )
    if accelerator.device.type == "cpu" and accelerator.mixed_precision == "fp16":
        raise InputError("Mixed precision fp16 needs a GPU. On a CPU use bf16 or no.")
    if accelerator.device.type == "cpu":
        # `accelerate launch` sets one thread a process unless told otherwise, whatever the machine has.
        torch.set_num_threads(recipe.training.cpu_threads or fair_share_of_cores(accelerator.num_processes))
    results = train_and_finish(recipe, splits, accelerator)
    # First the distributed model, then its process group: the other way round, their threads can wait for each other.
    accelerator.free_memory()
    accelerator.end_training()
    return results


def train_and_finish(recipe: Recipe, splits: dict[str, list[Pair]], accelerator: Accelerator) -> Results | None:
    """All of the work of [`train`], between the check of the texts and the end of the processes."""
    folder = Path(recipe.training.output_dir)
    texts, tokenizer = text_fingerprints(splits), None
    if accelerator.is_main_process:
        resumed = is_resumed(recipe, texts)
        tokenizer = open_tokenizer(recipe, splits["train"], resumed)
    [tokenizer] = broadcast_object_list([tokenizer])
    limit = longest_sequence(recipe)
    train_pairs = encode_pairs(splits["train"], tokenizer, recipe.data.max_length, "training")
    validation_pairs = encode_pairs(splits["validation"], tokenizer, limit, "validation")
    batches = TokenBudgetBatches(
        train_pairs.source_lengths,
        train_pairs.target_lengths,
        recipe.training.max_tokens,
        recipe.training.max_sentences,
        recipe.training.seed,
    )
    # All that could be wrong with the input has been seen: only now is anything written or deleted.
    if accelerator.is_main_process:
        begin_output(recipe, texts, tokenizer, resumed)
    accelerator.wait_for_everyone()
    loop = TrainingLoop(
        recipe.training,
        folder,
        accelerator,
        seeded_model(recipe, tokenizer),
        tokenizer,
        train_pairs,
        batches,
        validation_pairs,
        splits["validation"],
    )
    epoch = loop.batches.epoch(0)
    loop.log.say(
        f"{len(loop.train):,} training pairs, {len(tokenizer):,} sub-words, {loop.raw_model.num_parameters():,} "
        f"parameters, {len(epoch):,} batches an epoch with {loop.batches.padding_ratio(epoch):.1%} padding, "
        f"on {accelerator.num_processes} × {accelerator.device.type}"
    )
    loop.run()
    return finish(recipe, folder, loop, tokenizer, splits.get("test"))


def drops_layers(recipe: Recipe) -> bool:
    """Whether layers are left out in training, so that some parameters get no gradient."""
    return any(recipe.model.get(f"{stack}_layerdrop") for stack in ("encoder", "decoder"))


def longest_sequence(recipe: Recipe) -> int | None:
    """The tokens that the recipe's model can take; `None` where there is no limit."""
    config = VaswaniConfig(**recipe.model)
    return config.max_position_embeddings if config.position_type == "learned" else None


def fair_share_of_cores(processes: int) -> int:
    """Cores for each of so many processes on this machine; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cores // int(os.environ.get("LOCAL_WORLD_SIZE", processes)), 1)


def seeded_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> VaswaniForConditionalGeneration:
    """The recipe's model, initialised from its seed."""
    set_seed(recipe.training.seed)
    return build_model(recipe, tokenizer)


def finish(
    recipe: Recipe,
    folder: Path,
    loop: TrainingLoop,
    tokenizer: PreTrainedTokenizerFast,
    test_pairs: list[Pair] | None,
) -> Results | None:
    """Average the last checkpoints, score the mean, and save all that is needed to use it."""
    model = loop.raw_model
    checkpoints = checkpoint_folders(folder / CHECKPOINTS)[-recipe.training.average_last :]
    set_weights(model, average_weights(checkpoints))
    validation_loss = loop.validation_loss()
    score, examples, hypotheses = None, [], []
    if test_pairs:
        sources, references = map(list, zip(*test_pairs))
        hypotheses = loop.translate(sources, show_progress=loop.accelerator.is_main_process)
        score = bleu(hypotheses, references)
        examples = list(zip(sources, hypotheses, references))[:EXAMPLES]
    if not loop.accelerator.is_main_process:
        return None
    results = Results(
        folder,
        loop.progress.update,
        loop.progress.seconds / 60,
        model.num_parameters(),
        validation_loss,
        score,
        examples,
    )
    if test_pairs:
        (folder / TRANSLATIONS_FILE).write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / RESULTS_FILE).write_text(json.dumps(results.to_dict(), indent=2) + "\n", encoding="utf-8")
    if loop.has_trained or not (folder / "README.md").exists():
        write_card(folder, recipe.to_dict(), results.to_dict())
    return results
