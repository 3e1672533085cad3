"""The server's page in headless Chromium, with a model that writes in capitals.

Needs Chromium and its driver. `HF_VASWANI_NODE_MODULES` is a `node_modules` folder with axe-core.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..browser import NEEDS_CHROMIUM, TranslatorPage, chromium, violations

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]
pytest.importorskip("fastapi_offline")
uvicorn = pytest.importorskip("uvicorn")
webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.keys import Keys  # noqa: E402

from hf_vaswani.server.catalog import Catalog, Pair, Route  # noqa: E402

AXE = Path(os.environ.get("HF_VASWANI_NODE_MODULES", "nowhere")) / "axe-core" / "axe.min.js"
SCREENSHOTS = os.environ.get("HF_VASWANI_SCREENSHOTS")
PHONE = (390, 844)


class Page(TranslatorPage):
    """The server's page in a browser."""

    def paste(self, text: str, into: str = "source") -> None:
        code = "const field = document.getElementById(arguments[1]); field.value = arguments[0];"
        self.run(f"{code} field.dispatchEvent(new Event('input'))", text, into)

    def choose(self, name: str, label: str) -> None:
        self.run(
            "const menu = document.getElementById(arguments[0]);"
            "menu.value = [...menu.options].find((option) => option.label === arguments[1]).value;"
            "menu.dispatchEvent(new Event('change'))",
            name,
            label,
        )

    def wait_for(self, name: str, text: str) -> None:
        """Wait until an element has a text, with a line for each of its paragraphs."""
        parts = f"[...document.getElementById('{name}').childNodes].map((node) => node.textContent)"
        self.wait(f"{parts}.join('\\n') === {text!r}")

    def labels(self, name: str) -> list[str]:
        return self.run("return [...document.getElementById(arguments[0]).options].map(({label}) => label)", name)

    def items(self, name: str) -> list[str]:
        return self.run("return [...document.getElementById(arguments[0]).children].map((li) => li.textContent)", name)


@contextmanager
def served(client) -> Iterator[str]:
    """The address of a server with the application of a test client."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(client.app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def page(client, driver) -> Iterator[Page]:
    with served(client) as address:
        page = Page(driver, address)
        page.open()
        yield page
        assert page.errors() == []


def test_text_is_translated_as_it_is_typed_and_its_language_is_found(page):
    assert page.labels("source-language") == ["Any language", "German", "English", "French"]
    page.choose("target-language", "English")
    page.element("source").send_keys("Das ist ein kleiner Hund.\n\n Wer kommt?")
    page.wait("document.querySelectorAll('#translation p').length === 3")
    page.wait("!document.body.classList.contains('busy')")
    assert page.items("translation") == ["DAS IST EIN KLEINER HUND.", "", "WER KOMMT?"]
    assert page.labels("source-language")[0] == "German (detected)"
    assert page.run("return [source.lang, translation.lang]") == ["de", "en"]
    page.element("clear").click()
    page.wait_for("translation", "")
    assert page.labels("source-language")[0] == "Any language"


def test_languages_are_chosen_and_swapped(page):
    page.choose("source-language", "English")
    assert page.labels("target-language") == ["German"]
    page.paste("a dog")
    page.wait_for("translation", "A DOG")
    page.element("swap").click()
    page.wait("document.getElementById('target-language').value === 'en'")
    page.wait("!document.body.classList.contains('busy')")
    assert page.run("return [source.value, document.getElementById('source-language').value]") == ["A DOG", "de"]
    page.choose("source-language", "French")
    assert page.labels("target-language") == ["English"]
    page.wait("!document.body.classList.contains('busy')")
    assert not page.element("swap").is_displayed()


def test_warnings_and_alternatives_stand_under_the_translation(page):
    page.choose("source-language", "German")
    page.paste("doubtful")
    page.wait_for("translation", "DOUBTFUL")
    assert page.items("warnings") == ["doubtful."]
    assert page.items("alternatives") == ["DOUBTFUL1", "DOUBTFUL2", "DOUBTFUL3"]
    page.paste("sure\nsure")
    page.wait_for("translation", "SURE\nSURE")
    assert page.items("warnings") == page.items("alternatives") == []


def test_translation_over_a_third_language_says_so(page, client):
    service = client.app.state.service
    routes = service.catalog.routes | {Pair("de", "en"): Route("m", via="fr")}
    service.use(Catalog(service.catalog.models, routes), None)
    page.choose("source-language", "German")
    page.paste("doubtful")
    page.wait_for("translation", "DOUBTFUL")
    assert page.items("warnings") == ["doubtful.", "Translated over French."]


def test_pointed_word_is_marked_together_with_its_source_words(page, model):
    async def remote(pairs):
        return [{(0, 1), (1, 0)} for _ in pairs.texts]

    page.choose("source-language", "German")
    page.paste("😀 Hund\nkalte Füße")
    page.wait_for("translation", "😀 HUND\nKALTE FÜSSE")
    model.remote = remote
    point = webdriver.ActionChains(page.driver)
    point.move_to_element(page.element("translation")).perform()
    page.wait("document.querySelector('#translation .sentence')")
    page.element("translation").click()
    point.send_keys(Keys.END).perform()
    page.wait("document.querySelector('#mirror mark')?.textContent === 'kalte'")
    assert page.run("return document.querySelector('.linked').textContent") == "FÜSSE"
    point.send_keys(Keys.HOME).perform()
    page.wait("document.querySelector('#mirror mark')?.textContent === 'Hund'")
    assert page.run("return document.getElementById('link').textContent") == "Hund → 😀"


def test_document_is_translated_and_downloaded(page, tmp_path):
    page.choose("source-language", "German")
    (tmp_path / "ein Brief.txt").write_text("doubtful\nHund\n")
    page.element("file").send_keys(str(tmp_path / "ein Brief.txt"))
    page.wait("document.querySelector('#document a')")
    assert page.run("return document.querySelector('#document a').textContent") == (
        "Download the translation of ein Brief.txt"
    )
    assert page.run("return document.querySelector('#document li').textContent") == "'doubtful': doubtful."
    code = "fetch(document.querySelector('#document a').href).then((a) => a.text()).then(arguments[0])"
    assert page.driver.execute_async_script(code) == "DOUBTFUL\nHUND\n"
    assert page.run("return document.querySelector('#document a').href").startswith(page.address)


def test_terms_are_typed_or_chosen_from_the_glossaries_of_the_account(page, client, model):
    fields = {"name": "Animals", "source_lang": "de", "target_lang": "en"}
    client.post("/v2/glossaries", json={**fields, "entries": "Hund\thound", "entries_format": "tsv"})
    page.driver.refresh()
    page.wait("document.getElementById('glossary').options.length === 3")
    page.choose("target-language", "English")
    page.choose("glossary", "Animals")
    assert page.run("return document.getElementById('source-language').value") == "de"
    page.paste("ein Hund")
    page.wait_for("translation", "EIN HUND")
    assert [entry.targets for entry in model.chunks[-1].glossaries[0].entries] == [("hound",)]
    page.choose("source-language", "Any language")
    assert page.run("return document.getElementById('glossary').value") == ""
    page.choose("glossary", "Terms typed here")
    page.paste("unfinished =\nHund = big dog \n", "terms")
    page.wait("!document.body.classList.contains('busy')")
    time.sleep(1)
    assert [entry.targets for entry in model.chunks[-1].glossaries[0].entries] == [("big dog",)]
    page.choose("source-language", "English")
    assert page.labels("glossary") == ["None", "Terms typed here"]


def test_outdated_answer_is_never_shown_and_its_request_is_given_up(page, model):
    page.choose("source-language", "German")
    page.run(
        "window.seen = new Set(); new MutationObserver(() => seen.add(translation.textContent))"
        ".observe(translation, {childList: true, subtree: true, characterData: true})"
    )
    model.seconds = 2
    page.paste("first")
    page.wait("document.body.classList.contains('busy')")
    time.sleep(0.5)
    assert [chunk.texts for chunk in model.chunks] == [("first",)]
    page.paste("second")
    model.seconds = 0
    page.wait_for("translation", "SECOND")
    time.sleep(2)
    assert page.run("return [...window.seen]") == ["…", "SECOND"]


def test_control_and_enter_translate_at_once(page):
    page.choose("source-language", "German")
    page.run("source.addEventListener('keydown', () => window.since ??= performance.now(), {capture: true})")
    page.element("source").send_keys("Hund", Keys.CONTROL, Keys.ENTER)
    assert page.run("return document.body.classList.contains('busy') || translation.textContent === 'HUND'")
    page.wait_for("translation", "HUND")


def test_error_is_shown_and_the_text_stays(serve, driver):
    with served(serve(characters=10)) as address:
        page = Page(driver, address)
        page.open()
        page.choose("source-language", "German")
        page.paste("more than ten")
        page.wait_for("state", "13 characters exceed the text limit of 10.")
        assert page.run("return [source.value, translation.textContent]") == ["more than ten", ""]
        page.element("swap").click()  # there is no translation to take the place of the text
        page.wait_for("state", "13 characters exceed the text limit of 10.")
        assert page.run("return [source.value, document.getElementById('source-language').value]") == [
            "more than ten", "en",
        ]  # fmt: skip
        page.paste("Hund")
        page.wait_for("translation", "HUND")
        page.wait_for("state", "Ready.")
    page.paste("Hunde")
    page.wait_for("state", "The server cannot be reached. Your text is still here; try again in a moment.")
    assert page.run("return source.value") == "Hunde"
    page.errors()


def test_key_is_requested_and_is_in_no_address(serve, driver):
    with served(serve({"geheim ß": {}})) as address:
        page = Page(driver, address)
        page.open()
        page.choose("source-language", "German")
        page.paste("Hund")
        page.wait_for("state", "An API key is required.")
        page.errors()
        page.element("key").send_keys("geheim ß", Keys.TAB)
        page.wait_for("translation", "HUND")
        page.driver.refresh()
        page.wait("document.getElementById('state').textContent === 'Ready.'")
        page.choose("source-language", "German")
        page.paste("Katze")
        page.wait_for("translation", "KATZE")
        names = page.run("return [location.href, ...performance.getEntries().map(({name}) => name)]")
        assert names and not [name for name in names if "geheim" in name]
        assert page.errors() == []
        page.run("sessionStorage.clear()")


def test_page_of_a_server_without_keys_asks_for_none(page):
    assert not page.element("account").is_displayed()


def test_right_to_left_text_is_displayed_from_right_to_left(page):
    page.choose("source-language", "German")
    page.paste("مرحبا بالعالم.")
    page.wait("document.querySelector('#alternatives li')")
    code = "return getComputedStyle(document.querySelector(arguments[0])).direction"
    assert page.run(code, "#source") == page.run(code, "#translation p") == page.run(code, "#alternatives li") == "rtl"


@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violations_and_nothing_is_cut_off(serve, driver, size, scheme):
    if not AXE.exists():
        pytest.skip("needs axe-core in HF_VASWANI_NODE_MODULES")
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        with served(serve({"k": {}})) as address:
            page = Page(driver, address)
            page.open()
            page.element("key").send_keys("k", Keys.TAB)
            page.wait("document.getElementById('glossary').options.length === 2")
            page.choose("source-language", "German")
            page.choose("glossary", "Terms typed here")
            page.paste("doubtful")
            page.wait_for("translation", "DOUBTFUL")
            if SCREENSHOTS:
                driver.save_screenshot(f"{SCREENSHOTS}/server_{scheme}_{width}.png")
            assert page.run("return document.documentElement.scrollWidth") <= width
            assert violations(driver, AXE) == []
            page.run("sessionStorage.clear()")
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
