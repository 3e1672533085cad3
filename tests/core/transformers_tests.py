"""The tests that transformers has for all of its models, applied to this one.

pytest does not collect this file here: `test_transformers_tests.py` runs a copy of it among transformers' own tests,
as `tests/models/vaswani/test_modeling_vaswani.py`.
"""

import unittest

import torch

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniModel

from ...generation.test_utils import GenerationTesterMixin
from ...test_configuration_common import ConfigTester
from ...test_modeling_common import ModelTesterMixin, ids_tensor


class VaswaniModelTester:
    """A small model and a batch for it, under the names that the common tests read."""

    batch_size = 5
    seq_length = 7
    is_training = True
    hidden_size = 16
    num_hidden_layers = 2
    num_attention_heads = 4

    def __init__(self, parent: unittest.TestCase):
        self.parent = parent

    def get_config(self) -> VaswaniConfig:
        return VaswaniConfig(
            vocab_size=99,
            d_model=self.hidden_size,
            encoder_layers=self.num_hidden_layers,
            decoder_layers=self.num_hidden_layers,
            encoder_attention_heads=self.num_attention_heads,
            decoder_attention_heads=self.num_attention_heads,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            max_position_embeddings=100,
            attention_dropout=0.1,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[VaswaniConfig, dict[str, torch.Tensor]]:
        config = self.get_config()
        shape = [self.batch_size, self.seq_length]
        input_ids = ids_tensor(shape, config.vocab_size).clamp(3)
        input_ids[:, -1] = config.eos_token_id
        decoder_input_ids = ids_tensor(shape, config.vocab_size).clamp(3)
        inputs = {
            "input_ids": input_ids,
            "attention_mask": torch.ones_like(input_ids),
            "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": torch.ones_like(decoder_input_ids),
        }
        return config, inputs


class VaswaniModelTest(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    all_model_classes = (VaswaniModel, VaswaniForConditionalGeneration)
    is_encoder_decoder = True

    def setUp(self):
        self.model_tester = VaswaniModelTester(self)
        self.config_tester = ConfigTester(self, config_class=VaswaniConfig)

    def test_config(self):
        self.config_tester.run_common_tests()
