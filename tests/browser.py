"""Headless Chromium for tests of pages, if it, its driver and selenium are installed."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
NEEDS_CHROMIUM = pytest.mark.skipif(
    not (CHROMIUM and shutil.which("chromedriver")), reason="needs chromium and chromedriver on the path"
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync",
)  # fmt: skip
SECONDS = 180


@contextmanager
def chromium(profile: Path, size: tuple[int, int] = (1280, 900)) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_page_load_timeout(SECONDS)
    driver.set_script_timeout(SECONDS)
    try:
        yield driver
    finally:
        driver.quit()


class OpenPage:
    """A page in a browser."""

    # The levels of console messages that count as errors.
    levels: tuple[str, ...] = ("SEVERE",)

    def __init__(self, driver: Any, address: str):
        self.driver, self.address = driver, address

    def run(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def wait(self, condition: str) -> Any:
        """Wait until a condition holds, and return its value."""
        end = time.monotonic() + SECONDS
        while not (value := self.run(f"return {condition}")):
            assert time.monotonic() < end, f"{condition}: {self.run('return document.body.innerText')} {self.errors()}"
            time.sleep(0.05)
        return value

    def errors(self) -> list[dict]:
        return [entry for entry in self.driver.get_log("browser") if entry["level"] in self.levels]


def violations(driver: Any, axe: Path) -> list[dict]:
    """The violations that the script axe-core finds on the page that is open."""
    # Through the driver, since a page's own security policy may block such a script.
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe.read_text(encoding="utf-8")})
    found = driver.execute_async_script(
        "axe.run().then(({violations}) => arguments[0](JSON.stringify(violations.map("
        "({id, impact, nodes}) => ({id, impact, html: nodes.map((n) => n.html)})))))"
    )
    return json.loads(found)


class TranslatorPage(OpenPage):
    """The page for people who translate, with a model in the browser or a server."""

    levels = ("SEVERE", "WARNING")

    def open(self) -> None:
        self.driver.get(self.address)
        self.wait("document.getElementById('state').textContent === 'Ready.'")

    def element(self, name: str) -> Any:
        return self.driver.find_element("id", name)
