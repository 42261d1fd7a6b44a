"""docs/explorer.html in a browser: it filters, renders a page of rows at a time, and shows what is stored."""

import base64
import gzip
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from browser import browser, look  # noqa: F401 (a fixture)
from stored import stored_studies

from benchmarks.dataset import study_row
from benchmarks.explorer.__main__ import packed, page
from benchmarks.explorer.data import study_data
from benchmarks.stored.folders import question_studies

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "explorer.html"
DATA = re.compile(r'(?<=id="stored">)[^<]+')
MANY = 20_000
pytestmark = pytest.mark.slow


def stored_in(text: str) -> tuple[dict, list[dict]]:
    """Return the names of columns and the studies of a page."""
    names, *studies = (json.loads(gzip.decompress(base64.b64decode(line))) for line in DATA.search(text)[0].split())
    return names, studies


def committed() -> tuple[dict, list[dict]]:
    return stored_in(COMMITTED.read_text("utf-8"))


def show(browser, path, width, scheme="light"):
    look(browser, path, width, scheme)
    ready(browser)


def ready(browser):
    """Wait until the page has unpacked its data."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20).until(lambda _: browser.find_element("id", "count").text)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """The page with 20,000 rows, of which one is like no other."""
    names, studies = committed()
    rows = [row for study in studies for row in study.pop("rows", [])]
    rows = (rows * (MANY // len(rows) + 1))[:MANY]
    place = {name: i for i, name in enumerate(names["row"])}
    needle = [*rows[0]]
    needle[place["arm"]], needle[place["tricks"]], needle[place["tasks"]] = "norm=needle", ["norm=needle"], ["haystack"]
    rows[12_345] = needle
    studies[0]["rows"] = rows
    text = "\n".join(map(packed, [names, *studies]))
    path = tmp_path_factory.mktemp("explorer") / "many.html"
    path.write_text(DATA.sub(text, COMMITTED.read_text("utf-8")), encoding="utf-8")
    return path


ROWS = "return document.querySelectorAll('#rows tr').length"
ELEMENTS = "return document.querySelectorAll('body *').length"
CHOOSE = """const [name, value] = arguments, list = document.getElementById(`choose-${name}`);
  list.value = value; list.dispatchEvent(new Event('change')); return list.value;"""


def count(browser) -> int:
    """Return how many comparisons the filters leave."""
    return int(browser.find_element("id", "count").text.split(" ")[0].replace(",", ""))


@pytest.mark.browser
def test_of_20000_rows_a_page_is_rendered_and_all_are_filtered(browser, many):
    show(browser, many, 1280)
    assert count(browser) == MANY
    assert browser.execute_script(ROWS) == 50
    rendered = browser.execute_script(ELEMENTS)
    assert rendered < 5_000
    assert browser.execute_script(CHOOSE, "task", "haystack") == "haystack"
    assert count(browser) == browser.execute_script(ROWS) == 1
    assert "norm=needle" in browser.find_element("id", "rows").text
    browser.find_element("id", "clear").click()
    browser.find_element("id", "q").send_keys("norm=needle")
    assert count(browser) == 1
    browser.find_element("id", "q").clear()
    browser.find_element("id", "q").send_keys(" ")
    assert count(browser) == MANY and browser.execute_script(ROWS) == 50
    browser.execute_script(CHOOSE, "verdict", "reproduced")
    assert 0 < count(browser) < MANY and browser.execute_script(ROWS) == 50


FACETS = {"trick": "tricks", "task": "tasks", "start": "starts", "verdict": "verdict", "kind": "kind", "role": "role"}


@pytest.mark.browser
def test_each_value_of_each_filter_leaves_the_rows_that_have_it(browser):
    names, studies = committed()
    rows = pd.DataFrame([row for study in studies for row in study.get("rows", [])], columns=names["row"])
    rows["kind"] = [study["kind"] for study in studies for _ in study.get("rows", [])]
    show(browser, COMMITTED, 1280)
    browser.set_script_timeout(120)  # every value of every filter
    found = browser.execute_script(
        """return Object.fromEntries(Object.keys(FACETS).map(name => [name, Object.fromEntries(
          [...document.getElementById(`choose-${name}`).options].map(each => each.value).filter(Boolean).map(value => {
            choose(name, value); const left = filtered.length; choose(name, ''); return [value, left]; }))]))"""
    )
    for name, column in FACETS.items():
        wanted = rows[column].explode().dropna().replace("", "no verdict of its own").value_counts().to_dict()
        assert {key: left for key, left in found[name].items() if not key.endswith("=*")} == wanted, name
    norms = rows["tricks"].map(lambda tricks: any(re.match(r"norm[.=]", trick) for trick in tricks)).sum()
    assert found["trick"]["norm=*"] == norms
    sizes = found["size"]
    assert sizes["over 1 million"] == rows["weights"].map(lambda all_: any(each > 1e6 for each in all_)).sum() > 0


@pytest.mark.browser
def test_it_is_used_by_keyboard(browser):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys):
        ActionChains(browser).send_keys(*keys).perform()

    focused = "return document.activeElement.id"
    show(browser, COMMITTED, 1280)
    press("/")
    assert browser.execute_script(focused) == "q"
    places = []
    while not places or not places[-1].startswith("row-"):
        press(Keys.TAB)
        places.append(browser.execute_script("return document.activeElement.id || document.activeElement.textContent"))
        assert len(places) < 30, places
    assert {"choose-trick", "choose-task", "choose-size", "choose-start", "choose-verdict"} <= {*places}
    assert places[-1] == "row-0"
    press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert browser.execute_script(focused) == "row-2"
    assert browser.execute_script("return document.querySelectorAll('#rows [tabindex=\"0\"]').length") == 1
    press(Keys.PAGE_DOWN)
    assert browser.execute_script(focused) == "row-52" and browser.execute_script(ROWS) == 50
    press(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP)
    assert browser.execute_script(focused) == "row-49"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert browser.execute_script(outline) == "solid"
    press(Keys.ENTER)
    assert browser.execute_script(focused) == "detail" and "open=" in browser.current_url
    press(Keys.TAB)
    assert browser.execute_script(focused) == "close"
    press(Keys.ESCAPE)
    assert browser.execute_script(focused) == "row-49" and "open=" not in browser.current_url
    assert not browser.find_element("id", "detail").is_displayed()
    press(Keys.END)
    assert browser.execute_script(focused) == f"row-{count(browser) - 1}"


@pytest.mark.browser
def test_an_address_shows_the_same_again_and_a_wrong_one_is_not_taken(browser):
    show(browser, COMMITTED, 1280)
    browser.execute_script(CHOOSE, "verdict", "reversed")
    browser.find_element("id", "rows").find_element("tag name", "tr").click()
    address, shown = browser.current_url, browser.find_element("id", "detail").text
    browser.get("about:blank")
    browser.get(address)
    ready(browser)
    assert browser.find_element("id", "detail").text == shown and "reversed" in shown
    browser.get("about:blank")
    browser.get(f"{COMMITTED.as_uri()}#verdict=toString&task=nothing&open=constructor.0&sort=__proto__&foo=1")
    ready(browser)
    assert "#" not in browser.current_url
    assert count(browser) == sum(len(study.get("rows", [])) for study in committed()[1])


# a phone shows what is too wide smaller, so its own width says nothing: these get the width that is meant
OPEN_EACH = """return ROWS.filter(row => { open = row; details();
  const drawn = document.querySelectorAll('#detail svg').length;
  const wide = document.documentElement.scrollWidth > arguments[0];
  const bad = document.getElementById('detail').scrollWidth > document.getElementById('detail').clientWidth + 1;
  const wrong = /NaN|undefined|Infinity|\\[object/.test(document.getElementById('detail').innerHTML);
  return wide || bad || wrong || !drawn; }).map(row => row.key)"""
CUT_OFF = """return [...document.querySelectorAll('body *')].filter(each => each.getClientRects().length
  && each.getBoundingClientRect().right > arguments[0] + 1).map(each => `${each.tagName} ${each.className}`)"""
UNNAMED = "return [...document.querySelectorAll('input, select')].filter(each => !each.labels.length).length"
PAGES = """const wide = []; for (page = 0; page * PER_PAGE < filtered.length; page++) { show();
  if (document.documentElement.scrollWidth > arguments[0]) wide.push(page); } page = 0; show(); return wide;"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_row_and_its_details_fit_the_window_without_an_error(browser, width, scheme):
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    show(browser, COMMITTED, width, scheme)
    assert browser.execute_script(CUT_OFF, width) == []
    assert browser.execute_script(UNNAMED) == 0
    assert browser.execute_script(PAGES, width) == []
    if scheme == "light":
        assert {*browser.execute_script(OPEN_EACH, width)} <= nothing_to_draw()
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    assert browser.get_log("browser") == []
    messages = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    sent = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert {url.partition("#")[0] for url in sent if not url.startswith(("data:", "about:", "chrome"))} == {
        COMMITTED.as_uri()
    }


def nothing_to_draw() -> set[str]:
    """Return the rows without an effect: of studies without scores and levels, and of settings whose runs lack them."""
    names, studies = committed()
    effect, said = (names["row"].index(name) for name in ("effect", "said"))
    bare = [study["name"] for study in studies if not study.get("runs") and not study.get("levels")]
    return {
        f"{study['name']}.{place}"
        for study in studies
        for place, row in enumerate(study.get("rows", []))
        if row[effect] is None and (study["name"] in bare or re.search("runs have no|no run has", row[said]))
    }


@pytest.mark.browser
def test_details_show_what_is_stored_and_nothing_else(browser):
    headings = "return [...document.querySelectorAll('#detail h3')].map(each => each.textContent.split(':')[0])"
    show(browser, COMMITTED, 1280)
    wanted = {
        "allocation.1": ["Seeds", "Learning curves", "Scores over lr", "Train it again", "Of the same study"],
        "d01_negative.1": ["Levels", "Train it again", "Of the same study"],
        "clipping.0": ["Seeds", "Train it again", "Of the same study"],
        "curves/sort.1": ["Seeds", "Scores over lr", "Train it again", "Of the same study"],
    }
    for key, sections in wanted.items():
        browser.execute_script("chooseRow(BY_KEY.get(arguments[0]))", key)
        assert browser.execute_script(headings) == sections, key
    runs = pd.read_parquet(ROOT / "docs/curves/sort/runs.parquet").query("best and arm == 'norm=center'")
    assert "rlexp ablate --parts norm=none,norm=center" in browser.find_element("id", "detail").text
    dots = browser.execute_script(
        "return [...document.querySelectorAll('#detail .dot.arm title')].map(each => each.textContent)"
    )
    assert {f"seed {run.seed}: {run.number:.3g}" for run in runs.itertuples()} <= set(dots)


def test_answers_are_on_the_committed_page_as_they_are_and_have_a_row_in_the_data_set():
    stored, (_, there) = list(question_studies(ROOT / "docs")), committed()
    old = [each.name for each in stored if json.loads(json.dumps(study_data(each))) not in there]
    assert not old, "docs/explorer.html is old; make it anew: python -m benchmarks.explorer"
    rows = {each.name: json.loads(study_row(each)["settings"]) for each in stored}
    assert rows["self_distillation_tasks"]["task.hint"] == 3  # which no default task has


@pytest.mark.rare  # all studies are composed
def test_the_committed_page_is_what_the_command_writes():
    made, text = page(stored_studies()), COMMITTED.read_text("utf-8")
    same = stored_in(made) == stored_in(text) and DATA.sub("", made) == DATA.sub("", text)  # zlibs differ in the bytes
    assert same, "docs/explorer.html is old; make it anew: python -m benchmarks.explorer"
    assert COMMITTED.stat().st_size < 3_000_000  # an answer adds 5 to 35 kB, one with many runs 450 kB
