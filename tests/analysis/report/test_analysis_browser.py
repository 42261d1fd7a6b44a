"""The page of a sweep in a browser: no error, no request, tables that sort, readable on a telephone."""

import json

import pytest
from browser import browser  # noqa: F401 (a fixture)
from browser import look as show
from report_fixtures import reports  # noqa: F401 (a fixture)


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def column(browser, table, place):
    return browser.execute_script(
        "return [...arguments[0].tBodies[0].rows].map(row => row.cells[arguments[1]].textContent)", table, place
    )


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("case", ["3 variants", "20 variants", "long names", "one seed", "a failed run", "markup"])
def test_in_a_browser(browser, reports, case):
    path = reports(case).path
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(path.as_uri())
    own = ("data:", "chrome:", "chrome-untrusted:")  # the browser's first page is still being loaded
    assert [url for url in requests(browser) if not url.startswith(own)] == [path.as_uri()]
    assert browser.get_log("browser") == []
    unnamed = "return [...document.querySelectorAll('svg')].filter(s => !s.getAttribute('aria-label')).length"
    assert browser.execute_script("return document.querySelectorAll('figure svg').length") >= 8
    assert browser.execute_script(unnamed) == 0
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0  # only tables and figures scroll, inside their own box
    assert browser.execute_script("return window.broken") is None


def look(browser, path, width, scheme="light"):
    """Show a page in a window that is so many pixels wide, all of it unfolded."""
    show(browser, path, width, scheme)
    browser.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")


WIDER = """return [...document.querySelectorAll('body *')].filter(each => !each.closest('.scroll *')
  && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.tagName + ' ' + each.className)"""
SMALLEST = """return Math.min(...[...document.querySelectorAll('figure svg')].flatMap(svg =>
  [...svg.querySelectorAll('text')].map(each => parseFloat(getComputedStyle(each).fontSize)
    * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)))"""
SWATCHES = """return [...document.querySelectorAll("table[aria-label^='Comparison'] i.swatch")].map(each =>
  getComputedStyle(each).backgroundColor)"""
INKS = """return [...document.querySelectorAll('figure svg [style*=\"stroke: var(--mark\"]')].map(each =>
  getComputedStyle(each).stroke)"""


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("case", ["3 variants", "20 variants", "long names", "two axes"])
def test_nothing_is_wider_than_a_telephone_but_tables_that_scroll(browser, reports, case):
    look(browser, reports(case).path, 400)
    assert browser.execute_script("return innerWidth") == 400
    assert browser.execute_script(WIDER) == []
    assert browser.execute_script(SMALLEST) > 8.5  # pixels of the smallest text in a figure
    table = browser.find_element("css selector", "table[aria-label='Comparison: Variants']")
    last = table.find_elements("css selector", "tbody tr:first-child td")[-1]
    browser.execute_script("arguments[0].closest('.scroll').scrollLeft = 10000", table)
    assert browser.execute_script("return arguments[0].getBoundingClientRect().right", last) <= 400
    first = table.find_elements("css selector", "tbody tr:first-child td")[0]
    assert browser.execute_script("return arguments[0].getBoundingClientRect().left", first) >= 0  # it stays in sight


@pytest.mark.slow
@pytest.mark.browser
def test_a_wide_screen_has_three_figures_beside_each_other_and_one_color_for_a_variant(browser, reports):
    for scheme in ("light", "dark"):
        look(browser, reports("3 variants").path, 1280, scheme)
        places = "return [...document.querySelectorAll('figure')].map(each => each.getBoundingClientRect().left)"
        assert len(set(browser.execute_script(places))) == 3 and browser.execute_script(WIDER) == []
        swatches = browser.execute_script(SWATCHES)
        assert len(set(swatches)) == 3 and set(browser.execute_script(INKS)) == set(swatches[1:])
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.slow
@pytest.mark.browser
def test_tables_sort_by_number_and_by_text(browser, reports):
    look(browser, reports("8 variants").path, 1200)
    runs = browser.find_element("css selector", "table[aria-label='All runs']")
    heads = [head.text for head in runs.find_elements("css selector", "th")]
    score = heads.index("score")
    before = [float(text) for text in column(browser, runs, score)]
    runs.find_elements("css selector", "th button")[score].click()
    assert [float(text) for text in column(browser, runs, score)] == sorted(before) != before
    runs.find_elements("css selector", "th button")[score].click()
    assert [float(text) for text in column(browser, runs, score)] == sorted(before, reverse=True)
    runs.find_elements("css selector", "th button")[0].click()
    assert column(browser, runs, 0) == sorted(column(browser, runs, 0))
    comparison = browser.find_element("css selector", "table[aria-label='Comparison: Variants']")
    heads = [head.text for head in comparison.find_elements("css selector", "th")]
    comparison.find_elements("css selector", "th button")[heads.index("difference [95 %]")].click()
    cells = column(browser, comparison, heads.index("difference [95 %]"))
    numbers = [float(cell.split()[0].replace("−", "-")) for cell in cells if cell != "baseline"]
    assert numbers == sorted(numbers) and min(numbers) < 0
