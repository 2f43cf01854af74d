"""The page in a real browser: it opens without complaint, filters, sorts, leads on, and harms nobody."""

import io
from urllib.parse import urljoin

import pytest
from PIL import Image

from suite.results.__main__ import main
from suite.results.page import html
from tests.results import maker
from tests.results.conftest import emulated
from tests.results.maker import HOSTILE, entry, everywhere
from tests.waiting import until

pytestmark = pytest.mark.slow  # each starts a page in Chromium

BOARD = "#board tbody tr"


@pytest.fixture
def show(browser, tmp_path):
    """Write results as a page and open it, at `#there` if that is given."""

    def opened(entries, there=""):
        path = tmp_path / "results.html"
        path.write_text(html(entries, path, {}), encoding="utf-8")
        browser.get(f"{path.as_uri()}{there}")
        return browser

    yield opened
    assert complaints(browser) == []


def complaints(browser):
    """What the console says: errors, and each breach of the page's policy."""
    return [entry["message"] for entry in browser.get_log("browser")]


def shown(browser, selector=BOARD):
    return [each for each in browser.find_elements("css selector", selector) if each.is_displayed()]


def systems(browser):
    return [row.find_element("css selector", "td.system a").text for row in shown(browser)]


def choose(browser, selector, value):
    browser.find_element("css selector", f"{selector} option[value='{value}']").click()


MANY = [
    entry(30.0, system="slow", benchmark="vision/small"),
    entry(9.0, system="quick", benchmark="vision/small", framework="tensorflow"),
    entry(100.0, system="noisy", benchmark="text/small", runs=(maker.run(100.0, noise=("others",)),)),
    entry(None, system="lost", benchmark="text/small", runs=(maker.run(5.0, reached=False),)),
]


def test_filters_rows_dots_and_details_together(show):
    page = show(MANY)
    assert page.find_element("id", "count").text == "4 of 4 results"
    choose(page, "select[data-filter=benchmark]", "vision/small")
    assert systems(page) == ["slow", "quick"]
    assert len(shown(page, "article.result")) == 2
    assert [dot.get_attribute("data-n") for dot in shown(page, "svg a")] == ["1", "2"]
    assert len(shown(page, "[aria-labelledby=tradeoffs] > .drawings > figure")) == 1  # none without a dot
    choose(page, "select[data-filter=framework]", "tensorflow")
    assert systems(page) == ["quick"]
    assert page.find_element("id", "count").text == "1 of 4 results"
    page.find_element("css selector", "button[type=reset]").click()
    until(lambda: len(shown(page)) == 4)
    assert len(shown(page, "[aria-labelledby=tradeoffs] > .drawings > figure")) == 2
    page.find_element("id", "search").send_keys("Small NOISY")
    assert systems(page) == ["noisy"]


def test_hides_what_bears_a_mark(show):
    page = show(MANY)
    page.find_element("id", "clean").click()
    assert systems(page) == ["slow", "quick"]


def test_sorts_by_a_press_of_mouse_or_key(show):
    page = show(MANY)
    heading = page.find_element("xpath", "//table[@id='board']//button[text()='time']")
    heading.click()
    assert systems(page) == ["quick", "slow", "noisy", "lost"]
    heading.send_keys("\n")
    assert systems(page) == ["noisy", "slow", "quick", "lost"]  # without a score is last in both


def test_sorts_costs_by_currency_first(show):
    costs = {"cheap": (1.0, "USD"), "dear": (3.0, "USD"), "euros": (2.0, "EUR")}
    made = [(name, maker.run(cost=cost, currency=currency)) for name, (cost, currency) in costs.items()]
    page = show([entry(system=name, runs=(paid,) * 3) for name, paid in made])
    page.find_element("xpath", "//table[@id='board']//button[text()='cost']").click()
    assert systems(page) == ["euros", "cheap", "dear"]


@pytest.mark.parametrize("name", ["framework", "machine", "submitter", "division"])
def test_sorts_by_each_name_of_a_heading(show, name):
    page = show([entry(9.0, system="one", **{name: "box 10"}), entry(1.0, system="other", **{name: "box 9"})])
    heading = page.find_element("xpath", f"//table[@id='board']//button[text()='{name}']")
    heading.click()
    assert systems(page) == ["other", "one"]
    heading.send_keys("\n")
    assert systems(page) == ["one", "other"]
    sorted_by = page.find_elements("css selector", "#board [aria-sort]")
    assert [(name in each.text, each.get_dom_attribute("aria-sort")) for each in sorted_by] == [(True, "descending")]


LONG = [
    entry(
        7140.0 + 60 * at,
        system=f"MI300X_EPYC_9575F_pytorch_llama2_70b_{at}",
        machine="128 x 8 x NVIDIA Blackwell GPU (B200-SXM-180GB)",
        framework="PyTorch 2.8.0.dev20251001+rocm7.0.0.git64359f59, ROCm 7.0.0",
        benchmark="reinforcement_learning/small",
        submitter="Lambda_Hewlett-Packard-Enterprise",
        normalisation=1.0139,
        runs=tuple(maker.run(seconds, energy_source="estimated") for seconds in (6000.0, 7100.0, 5999.0)),
    )
    for at in range(40)
]
BROKEN = """
    const broken = [];
    for (const cell of document.querySelectorAll("#board tbody tr:first-child td")) {
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      for (let text; (text = texts.nextNode());) {
        for (const { 0: word, index } of text.data.matchAll(/[^\\s-]+/g)) {
          const range = document.createRange();
          range.setStart(text, index);
          range.setEnd(text, index + word.length);
          if (new Set([...range.getClientRects()].map((each) => each.top)).size > 1) broken.push(word);
        }
      }
    }
    return broken;
"""
VISIBLE = ("reinforcement_learning/small", "PyTorch 2.8.0", "llama2_70b_0", "128 x 8", "Lambda", "closed", "119 min")


def reads_well(page):
    """Assert that a first row of long names shows all its facts at once, and no word in two pieces."""
    (row, *_), scroll = shown(page), page.find_element("css selector", "section > .scroll")
    assert all(text in row.text for text in (*VISIBLE, "times 1.0139", "(estimated)", "3 of 3", "pass"))
    assert page.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", scroll)
    assert page.execute_script(BROKEN) == []


def test_long_names_of_40_systems_read_well_on_a_screen(show):
    page = show(LONG)
    reads_well(page)
    assert not page.find_element("css selector", ".ratio").is_displayed()
    choose(page, "#reference", f"{LONG[0].submitter}: {LONG[0].system}")
    assert [each.text for each in page.find_elements("css selector", "td.ratio")[:2]] == ["1", "0.992"]
    reads_well(page)


def test_long_names_read_well_on_a_phone(show, phone):
    reads_well(show(LONG[:2]))


def test_long_names_read_well_on_a_tablet(show, browser):
    for width in (641, 768, 1024, 1041):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        with emulated(browser, "setDeviceMetricsOverride", metrics, "clearDeviceMetricsOverride", {}):
            reads_well(show(LONG[:2]))


def test_long_names_read_well_on_paper(show, paper):
    reads_well(show(LONG[:2]))


def test_holds_times_to_a_reference_system(show):
    page = show(MANY)
    choose(page, "#reference", "example-org: slow")
    assert [row.find_element("css selector", ".ratio").text for row in shown(page)] == ["1", "3.33", "", ""]
    page.get("about:blank")
    page.back()  # to what was chosen
    assert [row.find_element("css selector", ".ratio").text for row in shown(page)] == ["1", "3.33", "", ""]
    choose(page, "#reference", "example-org: noisy")  # whose one run is fewer than a result has
    assert [row.find_element("css selector", ".ratio").text for row in shown(page)] == [""] * 4


def test_link_into_the_page_opens_the_runs(show):
    page = show(MANY, "#result-2")
    assert page.find_element("css selector", "#result-2 details").get_attribute("open") is not None
    assert page.find_element("css selector", "#result-2 .curve").is_displayed()
    page.find_element("css selector", "#result-3 summary").click()
    assert "NOISY" in page.find_element("css selector", "#result-3 tbody").text


def test_every_dot_and_control_is_reached_by_keyboard_and_has_a_name(show):
    page = show(MANY)
    for each in page.find_elements("css selector", "a, button, input, select, [tabindex]"):
        if each.is_displayed():
            page.execute_script("arguments[0].scrollIntoView()", each)  # what is far away is not laid out yet
            assert each.accessible_name.strip()
            assert page.execute_script("return arguments[0].tabIndex", each) == 0


def test_command_s_page_leads_to_its_review_and_its_evidence(browser, sound_result, tmp_path):
    assert main([str(sound_result), "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").as_uri()
    browser.get(page)
    assert complaints(browser) == []
    browser.find_element("link text", "pass").click()
    until(lambda: browser.title == f"Review of {sound_result.name}: pass")
    browser.get(page)
    links = {each.get_dom_attribute("href") for each in browser.find_elements("css selector", "a[href]")}
    for link in sorted(links):
        browser.get(urljoin(page, link))
        assert "ERR_" not in browser.page_source
    complaints(browser)  # of Chromium about its own listing of a folder


def test_takes_a_picture_that_shows_something(show):
    page = show(MANY)
    picture = Image.open(io.BytesIO(page.get_screenshot_as_png()))
    assert len(picture.getcolors(1 << 20)) > 50


@pytest.mark.parametrize("evil", HOSTILE)
def test_hostile_names_do_no_harm(show, phone, evil):
    page = show([everywhere(evil), entry(5.0)], "#result-1")
    assert page.title == "Results: time, cost and energy to quality"
    assert page.execute_script("return document.scripts.length") == 1
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.execute_script("return document.images.length") == 0
    assert page.execute_script("return document.documentElement.scrollWidth <= screen.width")
    assert len(shown(page)) == 2
    wanted = page.execute_script("return arguments[0].toLowerCase()", " ".join(evil.split())[:50])
    page.execute_script(
        "const s = document.getElementById('search'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input', { bubbles: true }))",
        wanted,
    )
    assert len(shown(page)) == 1


def test_hostile_evidence_does_no_harm_in_page_and_review(browser, run, tmp_path):
    evil = "".join(HOSTILE[:8])
    for key in ("submission_org", "submission_platform", "submission_division", "seed", "suite_environment"):
        run.edit(key, lambda record: record.update(value=evil))
    run.edit("suite_energy", lambda record: record["metadata"].update(source=evil))
    run.edit_system(lambda values: values["description"].update(host_processor_model_name=evil))
    folder = run.folder.rename(tmp_path / "<b>\u202e')")
    main([str(folder), "--html", str(tmp_path / "page.html")])
    for page in (tmp_path / "page.html", tmp_path / "page-reviews" / "1.html"):
        browser.get(page.as_uri())
        assert browser.execute_script("return [document.scripts.length, document.images.length]") == [1, 0]
        assert browser.execute_script("return document.querySelectorAll('b, [onerror], [onfocus]').length") == 0
    assert complaints(browser) == []


def test_fits_a_phone(show, phone):
    page = show(MANY, "#result-1")
    assert page.execute_script("return document.documentElement.scrollWidth <= screen.width")


def test_is_fit_for_paper(show, paper):
    page = show([*MANY, entry(1e5, system="8xACCELERATOR-80GB", machine="128 x 8 x an accelerator with a long name")])
    assert not page.find_element("id", "filters").is_displayed()
    assert len(shown(page)) == 5
    assert page.execute_script("return document.documentElement.scrollWidth") <= 718


def test_shows_200_systems(show):
    page = show([entry(10.0 + at, system=f"box-{at}", submitter=f"org-{at % 20}") for at in range(200)])
    assert len(page.find_elements("css selector", BOARD)) == 200
    page.find_element("id", "search").send_keys("box-17")
    assert len(shown(page)) == 11
