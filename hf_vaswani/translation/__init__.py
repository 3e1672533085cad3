"""Translating with a trained model: texts, files, several models together, and scores of given pairs.

`load` opens a model with its tokenizer, `ensemble` makes one model of several. All translation goes through the engine
of `core/pipeline_engine.py`: `translate` hands it a list of texts, `lines` the windows of a file or stream (`windows`)
for an output that can be resumed (`resumable_output`), `mbr` ranks the candidates that it gives by their `utility`.
`pair_scores` scores translations that are given.
"""
