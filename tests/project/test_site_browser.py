"""The built docs site in a browser, every page at two widths: no broken link, no overflow, no error, no request."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from browser import browser  # noqa: F401 (a fixture)

from benchmarks.parts.common import ROOT

pytest.importorskip("zensical", reason="zensical is not installed: pip install '.[docs]'")
pytestmark = [pytest.mark.rare, pytest.mark.slow]

OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
# what a reader cannot scroll to: outside of every box that scrolls
CUT_OFF = """return [...document.querySelectorAll('article *')].filter(each => each.getClientRects().length
  && !each.closest('.md-typeset__scrollwrap, pre, .highlight') && each.getBoundingClientRect().right > arguments[0] + 1)
  .map(each => each.tagName + ' ' + each.textContent.slice(0, 40))"""
EMPTY = "return [...document.images].filter(each => !each.naturalWidth).map(each => each.src)"
SHADOW = "return [...document.body.children].map(each => each.shadowRoot).find(Boolean)"


class Page(HTMLParser):
    """What a page links to, loads and can be linked to by."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.ids = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found["id"]} if "id" in found else set()
        if found.get("src"):
            self.loaded.append(found["src"])
        if found.get("href"):
            (self.loaded if tag == "link" else self.links).append(found["href"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of a site that is built with no way to the network."""
    out = tmp_path_factory.mktemp("site")
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    command = [sys.executable, "-m", "benchmarks.site", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **nowhere})
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "site"


@pytest.fixture(scope="module")
def pages(built):
    return {path: Page(path) for path in sorted(built.rglob("*.html")) if path.name != "404.html"}


def resize(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(built, pages):
    broken = []
    for path, page in pages.items():
        foreign = [url for url in page.loaded if urlsplit(url).scheme not in ("", "data")]
        broken += [(path.relative_to(built), url) for url in foreign]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            state = "=" in parts.fragment  # what is chosen in the explorer or the playground
            known = pages[target].ids if target in pages else {parts.fragment}
            if not target.is_file() or not state and unquote(parts.fragment) not in known:
                broken.append((path.relative_to(built), link))
    assert not broken and len(pages) > 100


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_fits_and_has_no_error(browser, built, pages, width):
    resize(browser, width)
    browser.get_log("performance")
    browser.get_log("browser")
    faults = {}
    for path in pages:
        browser.get(path.as_uri())
        found = {
            "wider": browser.execute_script(OVERFLOW) > 0,
            "cut off": browser.execute_script(CUT_OFF, width),
            "no image": browser.execute_script(EMPTY),
            "said": [entry["message"] for entry in browser.get_log("browser")],
            "asked for": [url for url in requests(browser) if url.startswith("http")],
        }
        if any(found.values()):
            faults[path.relative_to(built).as_posix()] = {name: fault for name, fault in found.items() if fault}
    assert not faults


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("word", "first"), [("clipfrac", "metrics.html"), ("until_decided", "statistics.html")])
def test_the_search_finds_a_page_and_leads_there(browser, built, width, word, first):
    from selenium.webdriver.support.ui import WebDriverWait

    wait = WebDriverWait(browser, 20)
    resize(browser, width)
    browser.get((built / "claims_explored/c1.html").as_uri())
    shown = [each for each in browser.find_elements("css selector", ".md-search__button, label[for=__search]")]
    next(each for each in shown if each.is_displayed() and each.tag_name != "div" and each.size["width"]).click()
    wait.until(lambda _: browser.execute_script(SHADOW + ".querySelector('dialog[open]')"))
    box = browser.execute_script(SHADOW).find_element("css selector", "input")
    box.send_keys(word)
    results = wait.until(lambda _: browser.execute_script(SHADOW).find_elements("css selector", "a[role=option]"))
    assert first in [urlsplit(each.get_attribute("href")).path.rsplit("/", 1)[-1] for each in results][:3]
    place = results[0].get_attribute("href").partition("?")[0]
    results[0].click()
    wait.until(lambda _: browser.current_url.partition("?")[0] == place)
    assert word in browser.find_element("css selector", "article").text
