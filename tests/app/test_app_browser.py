"""The page in headless Chromium, as people use it: typing, pointing, files, long text, keyboard, phone.

Needs Chromium and its driver. `HF_VASWANI_TRAINED_MODEL` names a German-English model, such as that of
`hf-vaswani train quickstart`, and `HF_VASWANI_NODE_MODULES` a `node_modules` folder with axe-core.
"""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hf_vaswani.app import server
from hf_vaswani.app.models import ModelCache
from hf_vaswani.app.translate import translate_text

from ..browser import NEEDS_CHROMIUM, OpenPage, chromium, violations
from ..conftest import tiny_model
from ..core.test_modeling_vaswani import randomize
from ..data.tokenizers.test_tokenizer import learn

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]
pytest.importorskip("gradio")
webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.keys import Keys  # noqa: E402

TRAINED = os.environ.get("HF_VASWANI_TRAINED_MODEL")
AXE = Path(os.environ.get("HF_VASWANI_NODE_MODULES", "nowhere")) / "axe-core" / "axe.min.js"
SCREENSHOTS = os.environ.get("HF_VASWANI_SCREENSHOTS")
PHONE = (390, 844)
TEXT = "Ein Mann kauft einen Mantel. Das ist mein Arzt.\nWer kommt?"


class Page(OpenPage):
    """The page in a browser."""

    def open(self) -> None:
        self.driver.get(self.address)
        self.wait("document.querySelector('#text textarea')?.dir === 'auto'")

    def element(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def tab(self, name: str) -> None:
        code = (
            "return [...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText.trim() === arguments[0])"
        )
        self.run(code, name).click()

    def put(self, selector: str, text: str) -> None:
        """Replace the content of a text box, as pasting does."""
        self.run(
            "const box = document.querySelector(arguments[0] + ' textarea'); box.value = arguments[1];"
            "box.dispatchEvent(new Event('input', {bubbles: true}))",
            selector,
            text,
        )

    def value(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0] + ' textarea').value", selector)

    def translate(self, text: str) -> str:
        self.put("#text", text)
        self.run("document.querySelector('#state p')?.remove()")
        self.element("#translate").click()
        self.wait("document.querySelector('#state p')?.innerText.startsWith('Done.')")
        self.settle()
        return self.value("#translation")

    def settle(self) -> None:
        """Wait until the page has rendered its latest output."""
        self.wait("!document.querySelector('#state .generating, #state .wrap:not(.hide)')")
        time.sleep(0.3)

    def message(self) -> str:
        """Return the toast message and close it."""
        self.wait("document.querySelector('.toast-body')")
        text = self.run("return document.querySelector('.toast-text, .toast-body').innerText")
        self.run("document.querySelector('.toast-close').click()")
        self.wait("!document.querySelector('.toast-body')")
        return text

    def screenshot(self, name: str) -> None:
        if SCREENSHOTS:
            self.driver.save_screenshot(f"{SCREENSHOTS}/{name}.png")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[str]:
    """The folders of two models."""
    tokenizer, paths = learn(), []
    for index in range(1 if TRAINED else 2):
        model = tiny_model(vocab_size=len(tokenizer), decoder_layers=2 + index)
        randomize(model)
        model.generation_config.max_new_tokens = 12
        folder = tmp_path_factory.mktemp("models") / f"model{index}"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        paths.append(str(folder))
    return [*[TRAINED] * bool(TRAINED), *paths]


@pytest.fixture(scope="module")
def shared(folders, tmp_path_factory) -> Iterator[Page]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with server.served(folders, port=port) as address, chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield Page(driver, address)


@pytest.fixture
def page(shared) -> Iterator[Page]:
    shared.open()
    shared.errors()
    yield shared
    assert shared.errors() == []


@pytest.fixture(scope="module")
def expected(folders):
    """Translates a text with the first model, without the page."""
    loaded = ModelCache(folders).open(folders[0])
    return lambda text, n_best=1: list(translate_text(loaded, text, n_best=n_best))[-1].text


def highlighted(page: Page) -> tuple[list[str], list[str]]:
    """The selected word, and the words aligned with it."""
    code = "return [...document.querySelectorAll(arguments[0])].map((word) => word.textContent)"
    return page.run(code, ".linked .on"), page.run(code, ".linked .to")


def test_typed_text_is_translated_with_scores(page, expected):
    page.element("#text textarea").send_keys(TEXT)
    page.element("#translate").click()
    page.wait("document.querySelector('#state p')?.innerText === 'Done.'")
    page.settle()
    assert page.value("#translation") == expected(TEXT, n_best=3)
    assert page.run("return document.querySelectorAll('#alternatives tbody tr').length") == 9
    page.screenshot("translate")


def test_hovered_or_tapped_word_is_highlighted_with_its_aligned_words(page):
    page.translate(TEXT)
    words = page.driver.find_elements("css selector", ".linked .target .word")
    linked = next(word for word in words if word.get_attribute("data-to"))
    webdriver.ActionChains(page.driver).move_to_element(linked).perform()
    [on], to = highlighted(page)
    pair = page.run("return arguments[0].closest('.pair').querySelector('.source').innerText", linked)
    assert on == linked.text and to and all(word in pair for word in to)
    assert page.run("return document.querySelector('.linked .link').textContent") == f"{' '.join(to)} → {on}"
    other = page.driver.find_elements("css selector", ".linked .source .word")[0]
    other.click()
    assert highlighted(page)[0] == [other.text]
    page.screenshot("words")
    if TRAINED:
        linked_to = {}
        for word in words[:7]:
            webdriver.ActionChains(page.driver).move_to_element(word).perform()
            linked_to[word.text] = highlighted(page)[1]
        assert linked_to["man"] == ["Mann"] and linked_to["coat"] == ["Mantel"]


def test_keyboard_alone_translates_and_steps_through_words(page):
    keys = webdriver.ActionChains(page.driver)
    page.run("document.querySelector('#text textarea').focus()")
    keys.send_keys("Das ist mein Arzt.").perform()
    visited = []
    for _ in range(12):
        keys.send_keys(Keys.TAB).perform()
        visited.append(page.run("return document.activeElement.closest('[id]')?.id"))
        if visited[-1] == "translate":
            break
    assert visited[-1] == "translate"
    keys.send_keys(Keys.ENTER).perform()
    page.wait("document.querySelector('#state p')?.innerText === 'Done.'")
    page.settle()
    for _ in range(6):
        keys.send_keys(Keys.TAB).perform()
        if page.run("return document.activeElement.matches('.linked .word')"):
            break
    targets = page.run("return [...document.querySelectorAll('.linked .target .word')].map((w) => w.textContent)")
    sources = page.run("return [...document.querySelectorAll('.linked .source .word')].map((w) => w.textContent)")
    seen = []
    for _ in targets:
        seen += highlighted(page)[0]
        keys.send_keys(Keys.ARROW_RIGHT).perform()
    assert seen == targets
    linked = highlighted(page)[1]
    keys.send_keys(Keys.ARROW_UP).perform()
    assert highlighted(page)[0] == (linked[:1] or sources[:1])
    keys.send_keys(Keys.HOME).perform()
    assert highlighted(page)[0] == sources[:1]
    keys.send_keys(Keys.ESCAPE).perform()
    assert highlighted(page) == ([], [])


def test_choosing_another_head_changes_the_heat_map(page):
    page.tab("Attention")
    page.put("#attention-text", "Ein Mann kauft einen Mantel.")
    page.element("#show-attention").click()
    page.wait("document.querySelector('#attention-map img')")
    picture = "document.querySelector('#attention-map img').src"
    first, title = page.run(f"return {picture}"), page.run("return document.querySelector('#attention-map img').alt")
    assert title.startswith("Cross-attention. Most attention: ")
    head = page.element("#head input")
    head.click()
    page.wait("document.querySelectorAll('#head ~ * [role=option], [role=option]').length > 3")
    head.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    page.wait(f"{picture} !== {first!r}")
    assert page.run("return document.querySelector('#head input').value") in ("0", "1")
    page.screenshot("attention")


def test_two_models_are_compared_side_by_side(page, folders, expected):
    page.tab("Compare")
    page.put("#compared-text", TEXT)
    page.element("#compare").click()
    page.wait("document.querySelector('#compared-1 textarea').value.includes('\\n')")
    page.wait("!document.querySelector('#compared-1 .generating')")
    assert page.value("#compared-0") == expected(TEXT)
    assert page.value("#compared-1") not in ("", page.value("#compared-0"))


def test_uploaded_file_is_translated_and_can_be_downloaded(page, expected, tmp_path):
    lines = ["Das ist mein Arzt.", "", "Wer kommt?"]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    page.tab("File")
    page.run("document.querySelector('#upload input[type=file]').style.display = 'block'")
    page.element("#upload input[type=file]").send_keys(str(tmp_path / "text.txt"))
    page.wait("document.querySelector('#upload').innerText.includes('text')")
    time.sleep(0.5)
    page.element("#translate-file").click()
    page.wait("document.querySelector('#file-state p')?.innerText.startsWith('3 lines')")
    address = page.wait("document.querySelector('#download a')?.href")
    text = page.driver.execute_async_script(
        "fetch(arguments[0]).then((response) => response.text()).then(arguments[1])", address
    )
    assert text.splitlines() == [expected(line) if line else "" for line in lines]
    page.screenshot("file")


def test_scores_and_search_tree_are_shown(page):
    page.tab("Score")
    page.put("#scored-text", "Das ist mein Arzt.\nWer kommt?")
    page.put("#references", "This is my doctor.\nWho is coming?")
    page.element("#score").click()
    page.wait("document.querySelector('#scores')?.innerText.includes('chrF2')")
    assert page.run("return document.querySelectorAll('#scores tbody tr').length") == 2
    page.tab("Search")
    page.put("#searched-text", "Das ist mein Arzt.")
    page.element("#show-search").click()
    page.wait("document.querySelector('#tree svg.beam-tree')")
    page.screenshot("search")


def test_right_to_left_text_is_displayed_right_to_left(page):
    page.translate("مرحبا بالعالم.\nDas ist mein Arzt.")
    direction = "return getComputedStyle(document.querySelector(arguments[0])).direction"
    assert page.run(direction, "#text textarea") == "rtl"
    assert page.run(direction, ".linked .pair .source") == "rtl"
    assert page.run(direction, ".linked .pair:nth-last-child(1) .source") == "ltr"
    page.screenshot("right_to_left")


def test_typed_markup_is_never_executed(page):
    text = (
        "<img src=x onerror='document.title=1'> <script>document.title=1</script> <b>Arzt</b> &amp; [a](javascript:1)"
    )
    title = page.run("return document.title")
    page.translate(text)
    assert page.run("return document.title") == title
    assert page.run("return document.querySelectorAll('#words img, #words script, #words b, #words a').length") == 0
    shown = page.run("return [...document.querySelectorAll('.linked .source')].map((p) => p.textContent).join(' ')")
    assert shown.split() == text.split()


def test_100000_characters_are_translated_and_more_give_a_clear_message(page):
    line = "Das ist mein Arzt.\n"
    text = (line * (100_000 // len(line) + 1))[:100_000]
    started = time.monotonic()
    translation = page.translate(text)
    print(f"100,000 characters in {time.monotonic() - started:.1f} s")
    assert translation.count("\n") == text.count("\n")
    assert "Words are linked in texts of up to 20,000 characters." in page.element("#state").text
    page.put("#text", text + "x")
    page.element("#translate").click()
    assert "The text has 100,001 characters, but at most 100,000 are allowed." in page.message()
    page.put("#text", " ")
    page.element("#translate").click()
    assert "The text is empty." in page.message()


def test_stop_keeps_what_is_translated_so_far(page):
    page.put("#text", "Das ist mein Arzt.\n" * 5000)
    page.element("#translate").click()
    page.wait("document.querySelector('#state p')?.innerText.includes(' of 5,000 sentences')")
    page.element("#stop").click()
    page.wait("document.querySelector('#state p')?.innerText.startsWith('Stopped after ')")
    page.settle()
    done = int(page.element("#state").text.removeprefix("Stopped after ").partition(" ")[0].replace(",", ""))
    assert page.value("#translation").count("\n") == done < 5000
    assert page.translate("Das ist mein Arzt.")


def test_page_loads_nothing_from_other_hosts(page):
    page.translate("Das ist mein Arzt.")
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(loaded) > 5
    assert [name for name in loaded if not name.startswith((page.address, "data:", "blob:"))] == []


@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation_and_nothing_is_cut_off(page, size, scheme):
    if not AXE.exists():
        pytest.skip("needs axe-core in HF_VASWANI_NODE_MODULES")
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        page.open()
        page.errors()  # discard errors of responses that the first visit did not wait for
        page.translate(TEXT + "\n" + "Donaudampfschiff" * 20)
        assert page.run("return document.documentElement.scrollWidth") <= width
        page.screenshot(f"{scheme}_{width}")
        serious = [found for found in violations(page.driver, AXE) if found["impact"] in ("serious", "critical")]
        assert serious == []
        if width > 500:
            page.tab("Attention")
            page.put("#attention-text", "Das ist mein Arzt.")
            page.element("#show-attention").click()
            page.wait("document.querySelector('#attention-map img')")
            time.sleep(0.5)
            serious = [found for found in violations(page.driver, AXE) if found["impact"] in ("serious", "critical")]
            assert serious == []
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
