"""Exports trained models to other engines, checks the exports, and opens them with the same `generate()`.

`export` writes a folder in one of the `formats`, `verify` compares its translations with the model's, and
`ctranslate2_model` and `onnx_model` open it as a transformers model, so that the pipeline and all commands can use it
like any other.
"""
