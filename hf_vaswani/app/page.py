"""The page itself: its layout, and which function handles which event. Only this file and `server.py` use gradio.

These functions yield or return what the components show; errors become messages in a corner of the page.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from ..errors import InputError, counted
from ..evaluation.attention import KINDS
from . import figures, views
from .file_translation import translate_file
from .limits import LONGEST_LINKED_TEXT, MOST_BEAMS, user_errors
from .models import TITLE, Languages, LoadedModel, ModelCache, make_title, target_choices
from .scores import scored
from .translate import Translation, translate_text

UPLOADS_KEPT = 3600, 6 * 3600  # seconds: how often gradio looks for old uploads, and how old they may be
LINES = 6
# Pixels: boxes are stacked where two of this width do not fit side by side, as on a phone.
NARROWEST = 300


class StopRequest:
    """Whether a visitor wants to stop; each visitor has one object, which both functions see."""

    is_made = False


class Choice(NamedTuple):
    """The components for choosing a model and its languages."""

    model: gr.Dropdown
    source: gr.Dropdown
    target: gr.Dropdown


def make_page(shelf: ModelCache, folder: Path) -> gr.Blocks:
    """Make the page for some models.

    Args:
        folder: where files to download are stored.
    """
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=UPLOADS_KEPT) as page:
        heading = gr.HTML(f"<h1>{TITLE}</h1>", elem_id="heading")
        choice = _choice(page, shelf, headings=[heading])
        # All tabs exist from the start, so that what was typed into them stays.
        with gr.Tabs():
            with gr.Tab("Translate"):
                _translate_tab(shelf, choice)
            with gr.Tab("Attention"):
                _attention_tab(shelf, choice)
            with gr.Tab("Compare"):
                _compare_tab(shelf, choice)
            with gr.Tab("File"):
                _file_tab(shelf, choice, folder)
            with gr.Tab("Score"):
                _score_tab(shelf, choice)
            with gr.Tab("Search"):
                _search_tab(shelf, choice)
        # If many people use the page at once, the model computes for one after another.
        page.queue(default_concurrency_limit=8, max_size=64)
    return page


def answers(work: Callable) -> Callable:
    """Wrap a function of the page so that its errors become messages on the page, with their text escaped."""

    @wraps(work)
    def answer(*arguments: object) -> Iterator[Any]:
        try:
            with user_errors():
                yield from work(*arguments)
        except InputError as error:
            raise gr.Error(escape(str(error)).replace("\n", "<br>"), duration=None, print_exception=False) from None

    return answer


def describe_state(done: Translation, loaded: LoadedModel, is_stopped: bool = False) -> str:
    """How far a translation has come, in words."""
    if not done.is_done and is_stopped:
        return f"Stopped after {len(done.sentences):,} of {counted(done.total, 'sentence')}."
    if not done.is_done:
        return f"{len(done.sentences):,} of {counted(done.total, 'sentence')}"
    if done.has_links:
        return "Done."
    if not loaded.has_attention:
        return "Done. Words are not linked: the engine of this model exposes no attention."
    return f"Done. Words are linked in texts of up to {LONGEST_LINKED_TEXT:,} characters."


def _choice(
    page: gr.Blocks, shelf: ModelCache, label: str = "Model", first: int = 0, headings: Sequence[gr.HTML] = ()
) -> Choice:
    """The model and its languages; `headings` name the languages if the model has only one pair."""
    with gr.Row():
        model = gr.Dropdown(list(shelf.names), value=shelf.names[first % len(shelf.names)], label=label, scale=2)
        source = gr.Dropdown([], label="From", visible=False, allow_custom_value=False)
        target = gr.Dropdown([], label="To", visible=False, allow_custom_value=False)
    choice = Choice(model, source, target)

    @answers
    def show_languages(name: str):
        loaded = shelf.open(name)
        choices = loaded.choices
        is_shown = bool(choices.sources)
        yield (
            gr.Dropdown(choices.sources, value=choices.source, visible=is_shown),
            gr.Dropdown(choices.targets, value=None, visible=is_shown),
            *[f"<h1>{escape(make_title(loaded))}</h1>" for _ in headings],
        )

    @answers
    def show_targets(name: str, chosen: str | None, before: str | None):
        targets = target_choices(shelf.open(name), chosen)
        yield gr.Dropdown(targets, value=before if before in targets else targets[0] if len(targets) == 1 else None)

    source.input(
        show_targets,
        inputs=[model, source, target],
        outputs=target,
        api_visibility="private",
        show_progress="hidden",
    )
    outputs = [source, target, *headings]
    settings = {"inputs": model, "outputs": outputs, "api_visibility": "private", "show_progress": "hidden"}
    model.change(show_languages, **settings)
    page.load(show_languages, **settings)
    return choice


def _open(shelf: ModelCache, name: str, source: str | None, target: str | None) -> tuple[LoadedModel, Languages]:
    return shelf.open(name), Languages(source or None, target or None)


def _text_box(label: str, lines: int = 4, **settings: object) -> gr.Textbox:
    return gr.Textbox(label=label, lines=lines, max_lines=18, min_width=NARROWEST, **settings)


def _translate_tab(shelf: ModelCache, choice: Choice) -> None:
    with gr.Row():
        text = _text_box("Text", 6, elem_id="text", placeholder="Type or paste text here.")
        translation = _text_box("Translation", 6, elem_id="translation", interactive=False, buttons=["copy"])
    with gr.Row():
        n_best = gr.Slider(1, MOST_BEAMS, value=3, step=1, label="Translations to show per sentence, with scores")
        button = gr.Button("Translate", variant="primary", elem_id="translate")
        stop = gr.Button("Stop", elem_id="stop")
    state = gr.HTML(elem_id="state")
    words = gr.HTML(elem_id="words")
    ranked = gr.HTML(elem_id="alternatives")
    request = gr.State(StopRequest())

    @answers
    def translate(name, source, target, text, n_best, request):
        request.is_made = False
        loaded, languages = _open(shelf, name, source, target)
        for done in translate_text(loaded, text, languages, int(n_best)):
            is_last = done.is_done or request.is_made
            yield (
                done.text,
                views.paragraphs(describe_state(done, loaded, request.is_made), *done.warnings),
                views.linked_text(loaded.tokenizer, done),
                views.alternatives(done.sentences) if is_last else "",
            )
            if is_last:
                break

    def ask_to_stop(request):
        request.is_made = True

    gr.on(
        [button.click, text.submit],
        translate,
        inputs=[*choice, text, n_best, request],
        outputs=[translation, state, words, ranked],
        api_name="translate",
        show_progress="minimal",
        show_progress_on=state,
    )
    # Sentences in progress are finished first; gradio's own `cancels` would sometimes report that as an error.
    stop.click(ask_to_stop, inputs=request, queue=False, api_visibility="private")


def _attention_tab(shelf: ModelCache, choice: Choice) -> None:
    view = figures.AttentionView()
    with gr.Row():
        text = _text_box("A sentence", 2, elem_id="attention-text")
        target = _text_box("Translation (leave empty for the model's own)", 2)
    with gr.Row():
        kind = gr.Dropdown(
            [(name.capitalize(), kind) for kind, name in KINDS.items()], value="cross", label="Attention"
        )
        both = [figures.MEAN, figures.ALL]
        layer = gr.Dropdown(both, value=figures.MEAN, label="Layer, from 0", elem_id="layer")
        head = gr.Dropdown(both, value=figures.MEAN, label="Head, from 0", elem_id="head")
        button = gr.Button("Show attention", variant="primary", elem_id="show-attention")
    map = gr.HTML(elem_id="attention-map")

    @answers
    def show(name, source, target_language, text, target, kind, layer, head):
        loaded, languages = _open(shelf, name, source, target_language)
        attention = view.attention(loaded, text, target, languages)
        layers, heads = figures.layers_and_heads(attention, kind)
        # Another model may have fewer layers or heads.
        layer, head = (one if one in those else figures.MEAN for one, those in ((layer, layers), (head, heads)))
        yield (
            gr.Dropdown(layers, value=layer),
            gr.Dropdown(heads, value=head),
            figures.draw(attention, kind, layer, head),
        )

    gr.on(
        [button.click, text.submit, kind.input, layer.input, head.input],
        show,
        inputs=[*choice, text, target, kind, layer, head],
        outputs=[layer, head, map],
        api_visibility="private",
        show_progress_on=map,
    )


def _compare_tab(shelf: ModelCache, choice: Choice) -> None:
    if len(shelf.names) < 2:
        gr.HTML("<p>To compare, start the page with at least two models: <code>hf-vaswani app MODEL MODEL</code></p>")
        return
    text = _text_box("Text", 4, elem_id="compared-text")
    button = gr.Button("Translate with both", variant="primary", elem_id="compare")
    sides = []
    with gr.Row():
        for place, name in enumerate(shelf.names[:2]):
            with gr.Column():
                model = gr.Dropdown(
                    list(shelf.names), value=name, label="First model" if place == 0 else "Second model"
                )
                output = _text_box("Translation", 4, interactive=False, elem_id=f"compared-{place}")
                sides.append((model, output))
    ((first, first_output), (second, second_output)) = sides

    @answers
    def compare(first, second, source, target, text):
        both: list[str] = ["", ""]
        for place, name in enumerate((first, second)):
            loaded, languages = _open(shelf, name, source, target)
            for done in translate_text(loaded, text, languages):
                both[place] = done.text
                yield tuple(both)

    button.click(
        compare,
        inputs=[first, second, choice.source, choice.target, text],
        outputs=[first_output, second_output],
        api_visibility="private",
    )


def _file_tab(shelf: ModelCache, choice: Choice, folder: Path) -> None:
    upload = gr.File(label="A document, or text with one sentence per line", elem_id="upload")
    button = gr.Button("Translate the file", variant="primary", elem_id="translate-file")
    state = gr.HTML(elem_id="file-state")
    download = gr.File(label="Translation", interactive=False, elem_id="download")

    # gradio finds its progress bar among the default arguments.
    @answers
    def translate(name, source, target, path, progress=gr.Progress()):  # noqa: B008
        loaded, languages = _open(shelf, name, source, target)

        def show(done: int, total: int) -> None:
            progress((done, total), desc=f"{done:,} of {counted(total, 'text')}", unit="texts")

        result = translate_file(loaded, path, folder, languages, show)
        yield views.paragraphs(*result.summary()), str(result.path)

    button.click(
        translate,
        inputs=[*choice, upload],
        outputs=[state, download],
        api_name="translate_file",
        show_progress_on=state,
    )


def _score_tab(shelf: ModelCache, choice: Choice) -> None:
    with gr.Row():
        text = _text_box("Text, one sentence per line", LINES, elem_id="scored-text")
        references = _text_box("References, one per line", LINES, elem_id="references")
    button = gr.Button("Translate and score", variant="primary", elem_id="score")
    result = gr.HTML(elem_id="scores")

    @answers
    def score(name, source, target, text, references):
        loaded, languages = _open(shelf, name, source, target)
        yield scored(loaded, text, references, languages)

    button.click(score, inputs=[*choice, text, references], outputs=result, api_name="score")


def _search_tab(shelf: ModelCache, choice: Choice) -> None:
    text = _text_box("A sentence", 2, elem_id="searched-text")
    with gr.Row():
        beams = gr.Slider(1, MOST_BEAMS, value=4, step=1, label="Beams")
        button = gr.Button("Show the search", variant="primary", elem_id="show-search")
    tree = gr.HTML(elem_id="tree")

    @answers
    def show(name, source, target, text, beams):
        loaded, languages = _open(shelf, name, source, target)
        yield figures.search_figure(loaded, text, int(beams), languages)

    gr.on(
        [button.click, text.submit],
        show,
        inputs=[*choice, text, beams],
        outputs=tree,
        api_visibility="private",
    )
