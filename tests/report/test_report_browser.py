"""The report in a real browser: nothing breaks, tables sort, pictures answer to the pointer and to the keyboard."""

import re
import shutil

import numpy as np
import pytest

import ellzero as ez
from ellzero import report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install ellzero[test]")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser here: install chromium to run these tests")

# no sandbox inside containers, and nothing that talks to the network on its own
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def result():
    train, _ = ez.datasets.make_market(n_days=120, n_assets=30).split()
    caps = ez.sets.GroupWise(ez.sets.L1Ball(0.2), groups=train.sectors)
    return ez.minimize(ez.risks.LeastSquares(train.returns, train.index_returns), 6, caps)


@pytest.fixture(scope="module")
def file(result, tmp_path_factory):
    market = ez.datasets.make_market(n_days=120, n_assets=30)
    train, test = market.split()
    caps = result.constraint
    risk, held_out = (ez.risks.LeastSquares(m.returns, m.index_returns) for m in (train, test))
    display = ez.TrackingDisplay(
        index_returns=market.index_returns,
        portfolios={"portfolio": market.returns @ result.x},
        dates=market.dates,
        test_from=96,
    )
    over_k = ez.minimize_path(risk, 8, caps, validation=held_out)
    path = tmp_path_factory.mktemp("report") / "report.html"
    return ez.write_report(
        result, path, feature_names=market.names, over_k=over_k, tracking=display, data=market.returns
    )


@pytest.fixture
def opened(browser, file):
    """Opens the report; what the console says and what is asked of the network ends up in `page.complaints`."""
    contexts = []

    def open_it(path=file, **options):
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "blob:")) else page.complaints.append(r.url))
        page.goto(path.as_uri())
        return page

    yield open_it
    for context in contexts:
        context.close()


def column(page, j, table=0):
    return page.locator("table").nth(table).locator(f"tbody td:nth-child({j})").all_text_contents()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_loads_without_complaints(opened, scheme):
    page = opened(color_scheme=scheme)
    page.wait_for_timeout(50)
    assert page.complaints == []
    assert page.locator("figure.plot svg").count() == 6
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_button_changes_the_colours_and_is_remembered(opened):
    page = opened(color_scheme="light")
    button = page.get_by_role("button", name="dark", exact=True)
    button.click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    for _ in range(20):  # the browser keeps what a page stores in a process of its own, which may be late
        page.reload()
        if page.evaluate("document.documentElement.dataset.theme"):
            break
        page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("#theme").text_content() == "light"


def test_headers_sort_the_table_and_say_so(opened, result):
    page = opened()
    weight = page.locator("th", has_text=re.compile("^weight")).first
    expected = np.sort(result.x[result.support])

    def weights():
        cells = page.locator("table").first.locator("tbody td.bar")
        return [float(cells.nth(i).get_attribute("data-value")) for i in range(cells.count())]

    assert weight.get_attribute("aria-sort") == "none"
    weight.get_by_role("button").click()
    assert weight.get_attribute("aria-sort") == "descending"
    np.testing.assert_array_equal(weights(), expected[::-1])
    weight.get_by_role("button").click()
    assert weight.get_attribute("aria-sort") == "ascending"
    np.testing.assert_array_equal(weights(), expected)
    name = page.locator("th", has_text=re.compile("^name")).first
    name.get_by_role("button").focus()
    page.keyboard.press("Enter")  # the keyboard sorts, too
    assert column(page, 1) == sorted(column(page, 1))
    assert (name.get_attribute("aria-sort"), weight.get_attribute("aria-sort")) == ("ascending", "none")


def test_missing_values_stay_below(opened, tmp_path):
    page = opened(report.Page("t").section("s", report.table({"x": [2.0, None, 10.0]})).save(tmp_path / "t.html"))
    for expected in (["10", "2", "–"], ["2", "10", "–"]):
        page.locator("th button").click()
        assert column(page, 1) == expected


def test_the_table_is_saved_as_csv(opened, result):
    page = opened()
    with page.expect_download() as download:
        page.get_by_role("button", name="save as CSV").first.click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("name,group,weight")
    saved = [float(line.split(",")[2]) for line in lines[1:]]
    np.testing.assert_array_equal(np.sort(saved), np.sort(result.x[result.support]))  # every digit
    assert page.complaints == []


def picture(page, words):
    return page.locator(f'.canvas[aria-label="{words}"]')


def test_hovering_shows_the_values(opened, result):
    page = opened()
    canvas = picture(page, "objective against iteration")
    canvas.scroll_into_view_if_needed()
    box = canvas.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
    tip = canvas.locator(".tip")
    assert tip.is_visible()
    iteration = int(re.match(r"iteration (\d+)", tip.text_content()).group(1))
    shown = float(tip.text_content().split("auto: ")[1])
    assert shown == pytest.approx(result.history.fun[iteration], rel=1e-5)
    assert canvas.locator(".spot").count() == 1 and canvas.locator(".cross").count() == 1
    spot = canvas.locator(".cross").bounding_box()
    assert abs(spot["x"] - (box["x"] + 0.6 * box["width"])) < box["width"] / result.nit  # near the pointer
    page.mouse.move(1, 1)
    assert not tip.is_visible()
    assert page.complaints == []


def test_the_keyboard_reads_a_picture(opened):
    page = opened()
    canvas = picture(page, "portfolio and index over time")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    first = canvas.locator(".tip").text_content()
    assert first.startswith("2021-01-04") and "index: " in first and "portfolio: " in first
    page.keyboard.press("ArrowRight")
    assert canvas.locator(".tip").text_content().startswith("2021-01-05")
    page.keyboard.press("End")
    spoken = canvas.locator("xpath=..").locator("output").text_content()
    assert spoken.startswith(str(ez.datasets.make_market(n_days=120, n_assets=30).dates[-1]))
    page.keyboard.press("Escape")
    assert not canvas.locator(".tip").is_visible()


def test_bars_tell_their_group(opened, result):
    page = opened()
    canvas = picture(page, "weight of every group")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    name, value = re.match(r"(.*?)weights: (.*)", canvas.locator(".tip").text_content()).groups()
    labels = np.array([result.constraint.names[g] for g in result.constraint.group_of(np.arange(30))])
    assert float(value) == pytest.approx(np.abs(result.x[labels == name]).sum(), rel=1e-5)


def test_everything_is_reached_with_the_tab_key_alone(opened):
    page = opened()
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("(e => e.className + ' ' + e.textContent.slice(0, 30))(document.activeElement)"))
        if page.evaluate("document.activeElement === document.body"):
            break
    assert any(r.startswith("skip") for r in reached)
    assert sum(r.startswith("canvas") for r in reached) >= 1
    for words in ("dark", "weight", "save as CSV", "Run it again"):
        assert any(words in r for r in reached), words


def test_fits_a_narrow_window_and_prints_in_light(opened, tmp_path):
    page = opened(viewport={"width": 360, "height": 700}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible() and not page.locator("nav").is_visible()
    assert page.pdf(format="A4")[:5] == b"%PDF-"
