"""Other engines for trained models: exports that are checked, and the same `generate()` for what was exported.

`export` writes a folder in one of the `formats`, `verify` compares its translations with the model's, and
`ctranslate2_model` and `onnx_model` open it as a model of transformers, so that the pipeline and all commands take it
like any other.
"""
