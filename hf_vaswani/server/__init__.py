"""A translation server on Ray Serve, with the HTTP APIs of LibreTranslate and DeepL, whose clients need no changes.

`catalog` tells which model translates which pair, `replica` translates with one of them, `api` is the application that
clients reach, with the routes of `libretranslate` and `deepl`; `launch` starts and stops all of it.
"""
