"""What travels with a checkpoint uses of transformers beyond its documented interface: these lists, and nothing else.

A new release that changes one of these is met here first.
"""

import ast
import importlib
from pathlib import Path

import pytest
from transformers import GenerationConfig, GenerationMixin, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.pipelines.base import ChunkPipeline

import hf_vaswani.core

# Module → the names that are imported from it, besides those of `transformers` itself.
IMPORTED = {
    "transformers.activations": {"ACT2FN"},
    "transformers.cache_utils": {"Cache", "DynamicCache", "EncoderDecoderCache"},
    "transformers.generation": {"EosTokenCriteria", "GenerateBeamEncoderDecoderOutput"},
    "transformers.masking_utils": {"create_bidirectional_mask", "create_causal_mask"},
    "transformers.modeling_layers": {"GradientCheckpointingLayer"},
    "transformers.modeling_outputs": {
        "BaseModelOutput",
        "BaseModelOutputWithPastAndCrossAttentions",
        "Seq2SeqLMOutput",
        "Seq2SeqModelOutput",
    },
    "transformers.modeling_utils": {"ALL_ATTENTION_FUNCTIONS"},
    "transformers.pipelines.base": {"ChunkPipeline"},
    "transformers.utils": {"ModelOutput", "can_return_tuple", "is_torchdynamo_exporting", "logging"},
    "transformers.utils.generic": {"merge_with_config_defaults"},
    "transformers.utils.output_capturing": {"OutputRecorder", "capture_outputs"},
}
# Class → its private attributes that are overridden, called or read.
PRIVATE = {
    GenerationMixin: {
        "_beam_search",
        "_get_candidate_generator",
        "_get_logits_processor",
        "_get_stopping_criteria",
        "_has_unfinished_sequences",
        "_prepare_cache_for_generation",
        "_prepare_generated_length",
        "_prepare_generation_config",
        "_prepare_model_inputs",
        "_update_model_kwargs_for_generation",
    },
    PreTrainedModel: {
        "_auto_class",
        "_ep_plan",
        "_fsdp_plan",
        "_get_files_timestamps",
        "_get_resized_embeddings",
        "_get_resized_lm_head",
        "_init_weights",
        "_pp_plan",
        "_resize_token_embeddings",
        "_tied_weights_keys",
        "_tp_plan",
    },
    PreTrainedTokenizerFast: {
        "_add_tokens",
        "_auto_class",
        "_decode",
        "_encode_plus",
        "_from_pretrained",
        "_save_pretrained",
        "_tokenizer",
    },
    PreTrainedConfig: {"_attn_implementation", "_auto_class"},
    GenerationConfig: {"_get_default_generation_params"},
    ChunkPipeline: {"_forward", "_sanitize_parameters"},
}


def nodes() -> list[ast.AST]:
    files = Path(hf_vaswani.core.__file__).parent.glob("*.py")
    return [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("module", IMPORTED)
def test_module_has_what_is_imported_from_it(module):
    assert not [name for name in IMPORTED[module] if not hasattr(importlib.import_module(module), name)]


def test_nothing_else_is_imported_from_transformers():
    found: dict[str, set[str]] = {}
    for node in nodes():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transformers."):
            found.setdefault(node.module, set()).update(alias.name for alias in node.names)
    assert found == IMPORTED


@pytest.mark.parametrize("cls", PRIVATE)
def test_class_has_the_private_attributes_that_are_used_and_no_others_are(cls):
    used = {node.attr for node in nodes() if isinstance(node, ast.Attribute)}
    used |= {node.name for node in nodes() if isinstance(node, ast.FunctionDef)}
    own = {name for base in cls.__mro__ if base.__module__.startswith("transformers") for name in vars(base)}
    private = {name for name in used & own if name.startswith("_") and not name.startswith("__")}
    # A method of models that every class inherits from its mixin for uploads.
    assert private - {"_get_files_timestamps"} == PRIVATE[cls] - {"_get_files_timestamps"}
