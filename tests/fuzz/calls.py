"""Calls of the Python API with arguments of the wrong types, shapes and values."""

import dataclasses
import random
from collections.abc import Iterator

from hf_vaswani import VaswaniConfig
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.training.recipe.model_arguments import ModelArguments

from .runner import Input

VALUES = ("None", "True", "0", "-1", "1", "1.5", "1e300", "10**18", "2**31", "2**64", "float('nan')", "float('inf')",
          "''", "'abc'", "'2'", "'٣'", "'\\ud800'", "[]", "[1]", "{}")  # fmt: skip
TEXTS = ("None", "1", "b'a'", "True", "''", "' \\t\\n'", "'\\ud800'", "'\\0'", "'a ' * 9000", "'x' * 9000", "[]",
         "['']", "[None]", "[1]", "['a', 1]", "[['a']]", "[b'a']", "('a', 'b')", "{'a'}", "{'a': 'b'}",
         "iter(['a', None])", "iter([])", "(t for t in 'ab')", "[float('nan')]", "['a'] * 500",
         "[['a', 'b'], ['c']]", "['a', '\\udfff']", "open('text.txt')", "open('text.txt', 'rb')",
         "[{'text': 'a'}]")  # fmt: skip
PAIRS = ("None", "1", "'ab'", "['ab']", "[('a', 'b', 'c')]", "[('a',)]", "[()]", "[]", "[None]", "[(None, 'a')]",
         "[('a', 1)]", "[('', '')]", "[('a', '')]", "[(b'a', b'b')]", "[('a ' * 3000, 'b')]", "[('\\ud800', 'b')]",
         "[('a', '\\ud800')]", "{('a', 'b')}", "{'a': 'b'}", "iter([('a', 'b')])", "[['a', 'b']] * 3",
         "[('a\\0', 'b\\n')]", "[{'a': 'b'}]", "('a', 'b')")  # fmt: skip
IDS = ("None", "'a'", "[]", "[[4, 5, 2]]", "torch.empty(0, 0, dtype=torch.long)", 
       "torch.empty(1, 0, dtype=torch.long)", "torch.ones(2, 3)",
       "torch.ones(3, dtype=torch.long)", "torch.ones(1, 2, 3, dtype=torch.long)",
       "torch.zeros(2, 3, dtype=torch.long)", "torch.full((1, 2), True)", "torch.full((1, 2), 10**6)",
       "torch.full((1, 2), -1)")  # fmt: skip
PATHS = ("None", "1", "''", "'absent'", "'mine'", "'mine.txt'", "'a\\0b'", "'\\ud800'", "'x' * 300", "Path('absent')",
         "[]", "'model/config.json'", "'.'", "'run/checkpoints'", "'owner/name'", "Path('mine')", "'run'",
         "Path('locked')", "'loop'")  # fmt: skip
MODELS = ("None", "1", "'model'", "[]", "[None]", "[model]", "model", "[model, other]", "[model, 'model']",
          "[model, model]", "(model,)", "{'a': model}", "[tokenizer]", "[torch.nn.Linear(1, 1)]")  # fmt: skip
DTYPES = ("None", "'float32'", "'abc'", "1", "torch.int8", "torch.float16", "torch.bool", "torch.complex64")
EMBEDDINGS = (
    "None",
    "1",
    "torch.nn.Linear(4, 4)",
    "torch.nn.Embedding(9, 5)",
    "torch.nn.Embedding(9, 4)",
    "torch.ones(9, 4)",
)
OPTIONS = ("None", "'--seed 1'", "['--seed', 1]", "['--seed']", "[None]", "('--seed', '1')", "{'seed': 1}", "['-1']",
           "['--']", "['--=']", "['--.=1']", "['']", "['--seed=1', '--seed=2']", "[['--seed', '1']]", "1",
           "['--seed', None]", "['--\\ud800', 'x']", "['--seed', '1', 'x']")  # fmt: skip
OF_CALL = (
    "n_best", "return_scores", "return_alignments", "src_lang", "tgt_lang", "split_sentences", "max_source_length",
    "return_warnings", "truncation", "batch_tokens", "batch_size", "num_workers", "return_tensors", "return_text",
    "return_type", "stop_sequence", "clean_up_tokenization_spaces", "generate_kwargs", "num_beams", "max_new_tokens",
    "length_penalty", "length_penalty_type", "max_length_offset", "num_return_sequences", "nonsense",
)  # fmt: skip
OF_GENERATE = (
    "num_beams", "max_new_tokens", "length_penalty", "length_penalty_type", "max_length_offset", "early_stopping",
    "num_return_sequences", "attention_mask", "decoder_input_ids", "eos_token_id", "generation_config",
)  # fmt: skip
FIELDS = [field.name for field in dataclasses.fields(VaswaniConfig) if field.name in ModelArguments.model_fields]
FIELDS += [
    "vocab_size",
    "decoder_vocab_size",
    "pad_token_id",
    "eos_token_id",
    "decoder_start_token_id",
    "format_version",
]
SIZES = ("d_model", "layers", "heads", "ffn_dim", "vocab_size", "d_k", "d_v", "max_position_embeddings")

# A call with a placeholder; its values; words, one of which must be in an error; how many values are tried.
CALLS = (
    ("translator({})", TEXTS, ("input", "text", "str"), 40),
    ("list(translator({}) or ())", TEXTS, ("input", "text", "str"), 10),
    ("pipeline('translation', model={})", (*PATHS, *MODELS), (), 10),
    ("pipeline('translation', model=model, tokenizer={})", PATHS, (), 8),
    (
        "pipeline({}, model='model')",
        ("'translation_'", "'translation_a_to_'", "'translation_a_to_b'", "'translation_1'"),
        (),
        4,
    ),
    ("model.generate({})", IDS, ("input_ids", "input"), 13),
    ("list(translate_mbr(translator, {}))", TEXTS, ("text", "input", "str"), 20),
    ("list(translate_mbr(translator, ['a b'], samples={}))", VALUES, ("samples",), 14),
    ("list(translate_mbr(translator, ['a b'], 2, utility={}))", (*VALUES, "'ter'", "'BLEU'"), ("utility",), 8),
    ("list(translate_mbr(translator, ['a b'], 2, epsilon={}))", VALUES, ("epsilon",), 12),
    ("list(translate_mbr(translator, ['a b'], 2, temperature={}))", VALUES, (), 5),
    ("rank_candidates(['a', 'b'], utility={})", (*VALUES, "'ter'"), ("utility",), 6),
    ("rank_candidates(['a', 'b'], weights={})", (*VALUES, "[1, -1]", "[0, 0]", "['a', 'b']"), ("weight",), 12),
    ("list(score_pairs(model, tokenizer, {}))", PAIRS, ("pair",), 30),
    ("list(score_pairs(model, tokenizer, [('a', 'b')], batch_tokens={}))", VALUES, ("batch_tokens",), 10),
    ("list(score_pairs(model, tokenizer, [('a', 'b')], max_length={}))", VALUES, ("max_length",), 12),
    ("list(score_pairs(model, tokenizer, [('a', 'b')], with_tokens={}))", VALUES, ("with_tokens",), 5),
    ("list(score_pairs(model, tokenizer, [('a', 'b')], src_lang={}))", VALUES, ("src_lang",), 6),
    ("list(score_pairs(model, tokenizer, [('a', 'b')], tgt_lang={}))", VALUES, ("tgt_lang",), 8),
    ("translate(model, tokenizer, {})", TEXTS, ("text", "input", "str"), 16),
    ("translate(model, tokenizer, ['a'], batch_size={})", VALUES, ("batch_size",), 8),
    ("Ensemble({})", MODELS, ("model", "member", "ensemble"), 14),
    ("Ensemble([model, model]).generate(ids, num_beams={})", VALUES, ("num_beams",), 6),
    ("import_model({})", (*PATHS, *MODELS), (), 20),
    ("import_model('marian', dtype={})", DTYPES, ("dtype",), 8),
    ("import_model('marian', vocabularies={})", PATHS, ("vocabular", "dictionar", "folder"), 10),
    ("import_model('marian', {}=1)", ("nonsense", "source_embedding"), ("nonsense", "source_embedding"), 2),
    ("import_model(torch.nn.Transformer(4, 2, 1, 1, 4), source_embedding={})", EMBEDDINGS, ("embed",), 6),
    (
        "import_model(torch.nn.Transformer(4, 2, 1, 1, 4), output_projection={})",
        EMBEDDINGS,
        ("lm_head", "projection"),
        6,
    ),
    ("import_tokenizer({})", (*PATHS, *MODELS), (), 10),
    ("import_checkpoint({}, 'out')", PATHS, (), 8),
    ("import_checkpoint('marian', {})", (*PATHS, "'../outside'", "'text.txt/x'"), (), 14),
    ("export_checkpoint(model, tokenizer, {})", (*PATHS, "'../outside'"), (), 12),
    ("export_marian({})", (*MODELS, "translator", "tokenizer"), ("model", "vaswani"), 12),
    ("load_tokenizer({})", PATHS, (), 12),
    ("load_recipe({})", PATHS, (), 16),
    (
        "load_recipe('recipe.yaml', ['--output_dir=out', *{}])",
        [options for options in OPTIONS if options[0] in "[("],
        ("option", "seed", "key"),
        14,
    ),
    ("load_recipe('recipe.yaml', {})", OPTIONS, ("option", "output_dir", "seed", "key"), 8),
    ("vaswani.preset({})", VALUES, ("preset",), 8),
    ("vaswani.preset('base', {}=1)", ("nonsense", "d_model", "vocab_size", "hidden_size"), (), 4),
    ("train_tokenizer({}, TokenizerArguments(vocab_size=40))", PAIRS, ("pair", "text"), 24),
)
PLACES = {"locked": ("folder", "locked", 0o000), "loop": ("link", "loop", "loop")}


def inputs(choose: random.Random) -> Iterator[Input]:
    """All inputs of this surface."""
    for template, values, words, number in CALLS:
        few = choose.sample(values, min(number, len(values)))
        yield from (call(template.format(value), words) for value in few)
    for name in OF_CALL:
        for value in choose.sample(VALUES, 4):
            yield call(f"translator(['a b', ''], {name}={value})", (name,))
        yield call(
            f"pipeline('translation', model=model, tokenizer=tokenizer, {name}={choose.choice(VALUES)})('a')", (name,)
        )
    for name in OF_GENERATE:
        yield from (call(f"model.generate(ids, {name}={value})", (name,)) for value in choose.sample(VALUES, 5))
    for name in FIELDS:
        for value in choose.sample(VALUES, 3):
            config = f"vaswani.VaswaniConfig(**{{**config, 'vocab_size': 40, {name!r}: {value}}})"
            is_large = value in ("1e300", "10**18", "2**31", "2**64") and name.endswith(SIZES)
            yield call(config if is_large else f"vaswani.VaswaniForConditionalGeneration({config})", (name,))
    for name in TokenizerArguments.model_fields:
        for value in choose.sample(VALUES, 4):
            yield call(f"train_tokenizer([('a b', 'b a')] * 3, TokenizerArguments({name}={value}))", (name,))


def call(code: str, words: tuple[str, ...]) -> Input:
    steps = tuple(step for place, step in PLACES.items() if f"'{place}'" in code)
    # Calls that write take the output path as their last argument.
    writes = ("work/*", "outside/*") if code.startswith(("import_checkpoint", "export_checkpoint")) else ()
    name = f"call {code}".encode("ascii", "backslashreplace").decode()
    return Input(name, code=code, words=words, steps=steps, writes=writes)
