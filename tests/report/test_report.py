"""The report: its blocks, its figures, and what it says about a result; `test_report_browser.py` opens it."""

import datetime
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import ellzero as ez
from ellzero import report
from ellzero.report.document import mandate

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Structure(HTMLParser):
    """Checks that tags are balanced, and collects ids, texts and everything that would be loaded."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.loads, self.texts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.loads += [v for k, v in attrs.items() if k in ("src", "href", "xlink:href") and not v.startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def structure(text):
    parser = Structure()
    parser.feed(text)
    assert not parser.open
    return parser


# ---- blocks ----


def test_everything_is_escaped():
    evil = "<script>alert('x')</script>&"
    page = report.Page(evil, lead=evil).section(
        evil,
        evil,
        report.paragraph(evil),
        report.facts({evil: evil}),
        report.code(evil),
        report.claim(evil, evil),
        report.table({evil: [evil, evil]}, evil),
        report.columns(report.paragraph(evil), report.paragraph(evil)),
    )
    text = page.html()
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;") >= 10
    assert "&amp;lt;" not in text  # and once is enough
    structure(text)


def test_backticks_are_code_and_html_is_left_alone():
    assert report.paragraph("a `b` c") == "<p>a <code>b</code> c</p>"
    assert report.paragraph(report.Html("<b>x</b>")) == "<p><b>x</b></p>"


def test_claims_have_the_colour_of_their_verdict():
    assert 'class="claim good"' in report.claim("confirmed", "x")
    assert 'class="claim bad"' in report.claim("Not confirmed", "x")
    assert 'class="claim neutral"' in report.claim("who knows", "x")


@pytest.mark.parametrize(
    "data",
    [
        {"name": ["b", "a"], "w": [0.25, None]},
        [{"name": "b", "w": 0.25}, {"name": "a"}],
        pd.DataFrame({"name": ["b", "a"], "w": [0.25, np.nan]}),
        pd.DataFrame({"w": [0.25, np.nan]}, index=pd.Index(["b", "a"], name="name")),
    ],
)
def test_tables_of_columns_rows_and_frames(data):
    text = report.table(data, "cap", formats={"w": ".0%"}, bar="w")
    assert re.findall(r"<button[^>]*>(.*?)</button>", text) == ["name", "w"]
    assert "25%" in text and 'data-value="0.25"' in text and "--share:1.0000" in text
    assert text.count('class="missing"') == 1
    structure(text)


def test_numbers_keep_all_their_digits_for_sorting():
    text = report.table({"x": [1 / 3, -2.0, 7]}, bar="x")
    assert [float(v) for v in re.findall(r'data-value="(.*?)"', text)] == [1 / 3, -2.0, 7]
    assert ">0.3333<" in text and ">7<" in text and "negative" in text


def test_tables_that_cannot_be_sorted_have_no_buttons():
    assert "<button" not in report.table({"x": [1]})
    assert "<button" not in report.table({"x": [1, 2]}, sort=False)
    with pytest.raises(
        TypeError, match="data must be a DataFrame, a mapping of columns or a list of row mappings, got int"
    ):
        report.table(3)


def test_fragments_for_notebooks_have_style_and_no_script():
    text = report.fragment(report.table({"x": [2, 1]}), report.facts({"k": 3}))
    assert "<script" not in text and "<button" not in text and "<style>" in text
    structure(text)


# ---- figures ----


def hover_data(text):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', text, flags=re.DOTALL).group(1))


def test_hover_points_lie_where_the_lines_are_drawn():
    """The JSON's places against the path that matplotlib wrote into the SVG: two ways to the same pixels."""
    picture = Figure(figsize=(5, 3), layout="constrained")
    ax = picture.subplots()
    ax.plot([1, 2, 4], [10.0, 100.0, 5.0], color="#123456", label="mine")
    ax.set_yscale("log")
    text = report.figure(picture, "a caption")
    (axes,) = hover_data(text)
    (series,) = axes["series"]
    assert (series["name"], series["color"]) == ("mine", "#123456")
    assert [p[2:] for p in series["points"]] == [["1", "10"], ["2", "100"], ["4", "5"]]
    drawn = re.search(r'<path d="([^"]*)"[^>]*stroke: #123456', text, flags=re.DOTALL).group(1)
    places = np.array(re.findall(r"[ML] ([\d.]+) ([\d.]+)", drawn), dtype=float)
    np.testing.assert_allclose([p[:2] for p in series["points"]], places, atol=0.1)


def test_hover_points_of_bars_and_dates():
    picture = Figure()
    left, right = picture.subplots(1, 2)
    left.barh([0, 1], [0.5, -0.25], label="w")
    left.set_yticks([0, 1], ["tech", "energy"])
    right.plot(np.array(["2024-01-02", "2024-01-03"], dtype="datetime64[D]"), [1.0, np.nan], label="day")
    bars, dates = hover_data(report.figure(picture))
    assert bars["along"] == "y" and [p[2:] for p in bars["series"][0]["points"]] == [
        ["tech", "0.5"],
        ["energy", "-0.25"],
    ]
    assert dates["along"] == "x" and [p[2:] for p in dates["series"][0]["points"]] == [["2024-01-02", "1"]]


def test_figures_follow_the_page_and_leak_nothing():
    picture = Figure()
    picture.subplots().plot([1, 2], [1, 2], color="black", label="a </script> b")
    page = report.Page("two").section("s", report.figure(picture, "one"), report.figure(picture, "two"))
    text = page.html()
    found = structure(text)
    assert len(found.ids) == len(set(found.ids))  # also across two copies of one picture
    body = text[text.index("<main") : text.index("</main>")]
    assert "stroke: currentColor" in body and "#000000" not in body
    assert "<style" not in body and "<metadata" not in body and "a </script> b" not in body


def test_figures_from_svg_text():
    text = report.figure('<?xml version="1.0"?><svg width="10pt" height="5pt"><path d="M 0 0"/></svg>', "c")
    assert "<?xml" not in text and "application/json" not in text and "<path" in text


# ---- pages ----


def test_a_page_is_one_file_that_loads_nothing(tmp_path):
    path = report.Page("T").section("Same").section("Same").save(tmp_path / "deep" / "p.html")
    text = path.read_text(encoding="utf-8")
    found = structure(text)
    assert found.loads == [] and "@import" not in text and "url(" not in text
    assert "default-src &#x27;none&#x27;" in text
    assert len(found.ids) == len(set(found.ids))
    for target in re.findall(r'href="#([^"]+)"', text):
        assert target in found.ids
    assert report.Page("T")._repr_html_().startswith('<div class="ellzero">')


# ---- the report of a result ----


def words(path):
    return " ".join(" ".join(structure(path.read_text(encoding="utf-8")).texts).split())


def test_report_of_a_result(answer, market, tmp_path):
    display = ez.TrackingDisplay(
        index_returns=market.index_returns,
        portfolios={"portfolio": market.returns @ answer.x},
        dates=market.dates,
        test_from=96,
    )
    path = ez.write_report(
        answer,
        tmp_path / "r.html",
        title="Six names",
        feature_names=market.names,
        tracking=display,
        summary={"error on held-out days": "20 bp"},
        data={"returns": market.returns},
        seed=7,
        command="ellzero track --k 6",
    )
    text = words(path)
    for expected in [
        "Six names",
        "20 bp",
        "not seen by the fit",
        "ellzero track --k 6",
        ez.__version__,
        "No certificate was asked for",
    ]:
        assert expected in text, expected
    assert report.fingerprint(market.returns) in text
    for i in answer.support:
        assert market.names[i] in text and market.sectors[i] in text
    weights = [
        float(w) for w in re.findall(r'class="number bar[^"]*" data-value="(.*?)"', path.read_text(encoding="utf-8"))
    ]
    np.testing.assert_array_equal(weights, sorted(answer.x[answer.support], key=abs, reverse=True))
    written = re.search(r"written (\S+)", text).group(1)
    assert abs(datetime.datetime.fromisoformat(written) - datetime.datetime.now().astimezone()) < datetime.timedelta(
        minutes=2
    )


def test_the_certificate_is_told_as_far_as_it_goes(tmp_path):
    problem = ez.datasets.make_regression(80, 20, 3)
    risk = ez.risks.LeastSquares(problem.X, problem.y, ridge=0.1)
    answer = ez.minimize(risk, 3)
    proved = ez.certify(risk, answer, time_limit=5)
    assert proved.status.name == "OPTIMAL"
    text = words(ez.write_report(replace(answer, certificate=proved), tmp_path / "a.html"))
    assert "proved Proven optimal." in text and text.count(" proved ") >= 3 and f"{proved.lower_bound:.8g}" in text
    status = type(proved.status)
    some = replace(proved, status=status.TIME_LIMIT, relative_gap=0.1, advice="a ridge", proved_in=proved.proved_in[:1])
    text = words(ez.write_report(replace(answer, certificate=some), tmp_path / "b.html"))
    assert "bounded Proven within 10% of the best possible." in text and "roven optimal" not in text
    assert "To improve the bound: a ridge." in text
    nothing = replace(proved, status=status.NO_BOUND, lower_bound=-np.inf, relative_gap=np.inf)
    text = words(ez.write_report(replace(answer, certificate=nothing), tmp_path / "c.html"))
    assert "not proved Nothing proven about the best possible." in text and "proved lower bound" not in text


def test_report_of_a_path(tmp_path):
    problem = ez.datasets.make_regression(80, 20, 3)
    risk = ez.risks.LeastSquares(problem.X[:60], problem.y[:60])
    path = ez.minimize_path(risk, 5, validation=ez.risks.LeastSquares(problem.X[60:], problem.y[60:]))
    text = words(ez.write_report(path, tmp_path / "p.html"))
    assert "Other numbers of nonzeros" in text and "held-out loss" in text
    assert f"{path.select('validation').support.size} nonzeros of at most {path.select('validation').k}" in text


def test_report_of_estimators(market, tmp_path):
    problem = ez.datasets.make_regression(60, 10, 2)
    frame = pd.DataFrame(problem.X, columns=[f"f{i}" for i in range(10)])
    model = ez.SparseRegressorCV(ks=4, ridge=0.0).fit(frame, problem.y)
    text = words(ez.write_report(model, tmp_path / "cv.html"))
    assert "held-out loss" in text and all(f"f{i}" in text for i in model.get_support(indices=True))
    assert "No certificate was asked for" in text  # reading certificate_ would compute one
    classes = np.array(["red", "green", "blue"])[np.digitize(problem.y, [-1, 1])]
    text = words(ez.write_report(ez.SparseClassifier(k=4).fit(problem.X, classes), tmp_path / "c.html"))
    assert re.search(r"(red|green|blue): x\d", text)


def test_report_of_a_tracker_and_its_backtest(market, tmp_path):
    returns, index, sectors = market.to_pandas()
    tracker = ez.IndexTracker(k=8, max_sector_weight=0.3, n_starts=1).fit(returns[:96], index[:96], groups=sectors)
    display = ez.TrackingDisplay.from_estimator(tracker, returns, index, test_from=96)
    text = words(ez.write_report(tracker, tmp_path / "t.html", tracking=display))
    later = tracker.tracking_error(returns[96:], index[96:])
    assert f"{tracker.tracking_error_:.2%} a year on the days of the fit, {later:.2%} on those after" in text
    assert "cap of a sector, Σ|w| 0.3" in text and "Groups" in text
    walk = tracker.backtest(returns, index, sectors, window=60, every=30, cost=0.001)
    text = words(ez.write_report(walk, tmp_path / "w.html"))
    assert f"{walk.turnover.iloc[1]:.1%}" in text and str(walk.weights.index[-1])[:10] in text
    plt.close("all")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"keep": "A01"}, {"always among them": "A01", "least weight": "0", "largest weight": "1"}),
        ({"keep": np.array(["A02", "A03"])}, {"always among them": "A02, A03"}),
        ({"max_sector_weight": np.float32(0.25), "budget": np.float32(0.5)}, {"cap of a sector, Σ|w|": "0.25", "budget, Σw": "0.5"}),
        ({"budget": np.array([0.5, 1.0])}, {"budget, Σw": "at least 0.5 and at most 1", "cap of a sector, Σ|w|": "none"}),
        ({"budget": (0.5, np.inf)}, {"budget, Σw": "at least 0.5"}),
        ({"budget": None, "min_weights": None, "max_weights": {"A01": 0.2}}, {"budget, Σw": "free", "least weight": "free", "largest weight": "different for some"}),
    ],
)  # fmt: skip
def test_what_was_asked_of_a_tracker(market, asked, told):
    returns, index, sectors = market.to_pandas()
    tracker = ez.IndexTracker(k=8, n_starts=1, **asked).fit(returns, index, groups=sectors)
    assert told.items() <= mandate(tracker).items()


def test_report_of_nothing_selected_and_of_what_was_not_monitored(tmp_path):
    problem = ez.datasets.make_regression(40, 10, 2)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    assert "Nothing: the best vector found is zero" in words(ez.write_report(ez.minimize(risk, 0), tmp_path / "0.html"))
    res = ez.minimize(risk, 2, method="IHT", monitor="final", max_iter=5)
    assert "was not monitored" in words(ez.write_report(res, tmp_path / "f.html"))


def test_report_of_an_object_of_your_own(tmp_path):
    class Desk:
        def report_sections(self):
            yield "Holdings", "Two names.", report.table({"name": ["A", "B"], "weight": [0.6, 0.4]})

    page = ez.write_report(Desk(), tmp_path / "d.html", title="My desk", command="make desk").read_text(
        encoding="utf-8"
    )
    structure(page)
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == ["Holdings", "Run it again"]
    assert "<p>Two names.</p>" in page and "<h1>My desk</h1>" in page and "make desk" in page


@pytest.mark.parametrize("model", [ez.SparseRegressor(k=2), ez.IndexTracker(k=2)])
def test_report_of_what_is_not_fitted(model, tmp_path):
    with pytest.raises(ValueError, match="is not fitted yet"):
        ez.write_report(model, tmp_path / "x.html")


def test_report_refuses_what_it_cannot_tell(answer, tmp_path):
    with pytest.raises(TypeError, match="what must be a Result, a SparsePath or a fitted estimator, got int"):
        ez.write_report(3, tmp_path / "x.html")
    with pytest.raises(ValueError, match="a name for each of the 30 coordinates, got 2"):
        ez.write_report(answer, tmp_path / "x.html", feature_names=["a", "b"])
    assert not (tmp_path / "x.html").exists()


# ---- fingerprints ----


def test_fingerprints_tell_data_apart(tmp_path):
    a = np.arange(6.0).reshape(2, 3)
    same = [a, a.copy(), np.asfortranarray(a)]
    assert len({report.fingerprint(x) for x in same}) == 1
    others = [
        a.astype("float32"),
        a.reshape(3, 2),
        a + 1e-16 + 1,
        sp.csr_array(a),
        pd.DataFrame(a),
        pd.DataFrame(a, columns=list("abc")),
    ]
    assert len({report.fingerprint(x) for x in [a, *others]}) == 7
    (tmp_path / "f").write_bytes(b"abc")
    assert report.fingerprint(tmp_path / "f") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# ---- documentation ----


def test_the_page_about_the_report(tmp_path, monkeypatch):
    """Its blocks run one after the other; its table of sections is the report's."""
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "report.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, "report.md", "exec"), names)
    plt.close("all")
    for file in ("report.html", "page.html"):
        structure((tmp_path / file).read_text(encoding="utf-8"))
    sections = re.findall(r"<h2[^>]*>(.*?)</h2>", (tmp_path / "report.html").read_text(encoding="utf-8"))
    told = re.findall(r"^\| ([A-Z][\w ]+?) \|", page, flags=re.MULTILINE)
    assert [name for name in told if name != "Other numbers of nonzeros"] == sections
    assert 20_000 < (root / "docs" / "figures" / "report.png").stat().st_size < 200_000


def test_the_lead_counts_what_is_counted(tmp_path):
    """Four nonzeros in one group are not "4 nonzeros of at most 1"."""
    X = np.random.default_rng(0).standard_normal((20, 8))
    risk = ez.risks.LeastSquares(X, X[:, :4].sum(axis=1))
    result = ez.minimize(risk, ez.sparsity.Groups(1, list("aaaabbbb")))
    page = ez.write_report(result, tmp_path / "g.html").read_text(encoding="utf-8")
    assert "Nonzeros: 4, in 1 of at most 1 group, objective" in page
    assert "nonzeros of at most 1" not in page
