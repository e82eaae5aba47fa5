"""What newcomers see first: the examples, the README, the docstrings' examples, and the pictures."""

import contextlib
import doctest
import importlib
import importlib.util
import io
import pkgutil
import re
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from common import assert_printed

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import ellzero as ez
from ellzero.risks.blackbox import POLICIES
from ellzero.testing import check_set

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = sorted(module.name for module in pkgutil.walk_packages(ez.__path__, "ellzero."))


@pytest.fixture(autouse=True)
def no_figure_left_open():
    yield
    left = plt.get_fignums()
    plt.close("all")
    assert not left


def load(name, folder="examples"):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", ROOT / folder / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def assert_picture(path, kind=b"\x89PNG"):
    content = Path(path).read_bytes()
    assert content.startswith(kind)
    assert 5_000 < len(content) < 200_000


# ---- docstrings ----


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").startswith("ellzero"):
            raise
        pytest.skip(f"{name} needs an extra that is not installed: {error}")
    typed = "".join(example.source for test in doctest.DocTestFinder().find(module) for example in test.examples)
    for package in re.findall(r"^(?:import|from) (\w+)", typed, re.M):
        pytest.importorskip(package)
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


# ---- examples ----


def test_demo_small(tmp_path, capsys):
    out = tmp_path / "deep" / "demo.png"
    results = load("demo").main(k=5, cap=0.1, seed=1, out=out, n_days=100, n_assets=40, max_iter=200)
    assert list(results) == ["auto", "IHT-2SP", "PGD+H", "IHT+P"]
    for res in results.values():
        assert res.support.size <= 5 and res.violation <= 1e-12
    assert_picture(out)
    printed = capsys.readouterr().out
    assert str(out) in printed
    assert all(printed.count(name) >= 2 for name in results)


@pytest.mark.slow
def test_survival_small(tmp_path, capsys):
    model = load("survival").main(patients=150, genes=40, out=tmp_path / "survival.png")
    assert_picture(tmp_path / "survival.png")
    printed = capsys.readouterr().out
    assert f"{model.k_} of 40 genes" in printed and "concordance" in printed


def test_demo_options():
    demo = load("demo")
    assert vars(demo.parse([])) == {"k": 15, "cap": 0.1, "seed": 0, "out": "out/demo.png"}
    assert vars(demo.parse(["--k", "3", "--cap", "0.2", "--seed", "4", "--out", "x.png"]))["cap"] == 0.2


def test_figure1(tmp_path):
    figure1 = load("figure1_two_step_projection")
    png, svg = figure1.main(tmp_path)
    assert_picture(png)
    assert_picture(svg, b"<?xml")
    check_set(figure1.EGG, n_features=2, k=1, rng=0)
    result = ez.two_step_projection(figure1.W, 1, figure1.EGG)
    nearest = figure1.nearest_sparse_member(figure1.EGG, figure1.W)
    distances = [np.linalg.norm(point - figure1.W) for point in (nearest, result)]
    assert distances[0] < distances[1]  # what the picture says
    assert not figure1.FLOOR.preserves_support


def test_promised_sparsity_small(tmp_path, capsys):
    promised = load("promised_sparsity")
    case = promised.diabetes(0.1)._replace(ks=(4, 8, 10))
    assert_picture(promised.main(tmp_path, cases=[case])[0])
    rows = [promised.promised(case, k) for k in case.ks]
    for row in rows:  # no more than the truth, and never less than what is known beforehand
        assert row["truth"] >= row["a posteriori"] >= (row["a priori"] or 0)
    assert [row["a posteriori"] for row in rows][1:] == [7, 10] and "a posteriori" in capsys.readouterr().out


@pytest.mark.slow
def test_sparser_frontier_small(tmp_path):
    frontier = load("sparser_frontier")
    assert_picture(frontier.main(tmp_path, kappas=(2,), sizes=(8,))[0])
    assert [frontier.frontier(method, 2, None) for method in ("IHT-2SP", "RegIHT", "ARHT")] == [4, 2, 2]
    assert frontier.wasted("RegIHT", 8) > 2 and frontier.wasted("auto", 8) == 1


def test_promises_page():
    """What the page prints of a promise is what it says, but for seconds."""
    text = page("what-is-promised")
    block = next(code for code in blocks("python", text) if "ez.beats" in code)
    told, shown = run(f"import ellzero as ez\n{block}").splitlines(), [line[4:] for line in text.splitlines()]
    assert len(told) == 6 and all(line in shown for line in told[:-1])


def test_figure1_is_drawn_for_the_readme():
    assert_picture(ROOT / "docs" / "figures" / "two_step_projection.png")


def test_compressed_sensing_recovers_exactly(tmp_path, capsys):
    out = tmp_path / "cs.png"
    example = load("compressed_sensing_dct")
    errors = example.main(d=256, m=128, k=8, seed=0, out=out, sweep=(4, 8), n_signals=2)
    assert errors.keys() == example.METHODS.keys()
    assert max(errors.values()) < 1e-8
    assert_picture(out)
    assert "256 samples" in capsys.readouterr().out


def test_the_sampled_transform_is_its_rows():
    rows = np.array([1, 4, 5])
    X = load("compressed_sensing_dct").sampled_dct(8, rows)
    matrix = X @ np.eye(8)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(X.T @ np.eye(3), matrix.T, atol=1e-12)


def test_groups_without_negative_weights(tmp_path, capsys):
    out = tmp_path / "groups.png"
    aware, clipped, again = load("nonnegative_groups").main(k=3, out=out, groups=15).values()
    assert aware <= again * (1 + 1e-9) and again <= clipped * (1 + 1e-9)
    assert_picture(out)
    assert "groups with w >= 0" in capsys.readouterr().out


@pytest.mark.slow
def test_pixel_attack_small(tmp_path, capsys):
    out = tmp_path / "attack.png"
    example = load("pixel_attack")
    attacks = example.main(k=3, images=4, queries=150, seed=0, out=out, epochs=8)
    assert len(attacks) == 4
    for a in attacks:
        assert 0 < np.count_nonzero(a.w) <= 3
        assert (a.x + a.w).min() >= 0 and (a.x + a.w).max() <= 16
        assert a.queries <= 150
        assert a.success or a.queries >= 148  # it gives up only when nothing is left
    assert any(a.success for a in attacks)
    assert_picture(out)
    printed = capsys.readouterr().out
    assert f"the attack     {sum(a.success for a in attacks)} of 4 images misread" in printed
    assert len(re.findall(r"^ +\d+ +\d +[\d-] +\d +\d+ +[\d-]+$", printed, flags=re.MULTILINE)) == 4


def test_the_margin_of_the_attack_is_negative_where_the_network_is_wrong():
    class Network:
        def predict_proba(self, X):
            return np.column_stack([X[:, 0], 1 - X[:, 0], np.zeros(len(X))])

    margin = load("pixel_attack").margin_of(Network(), np.array([0.5]), true=0)
    np.testing.assert_allclose(margin(np.array([[0.3], [-0.3]])), [np.log(4), -np.log(4)])


def test_sparse_policy_small(tmp_path, capsys):
    out = tmp_path / "policy.png"
    example = load("sparse_policy")
    learnt = example.main(k=4, queries=400, runs=2, seed=0, out=out, test_shops=20)
    assert list(learnt) == ["at most 4", "all 200"]
    for runs in learnt.values():
        for run in runs:
            assert run.res.n_values + run.res.n_monitor <= 400
            assert len(run.trail) == len(run.costs) == run.res.nit + 1
    for run in learnt["at most 4"]:
        assert run.res.support.size <= 4
        assert run.cost < run.costs[0]  # better than no signals
    assert_picture(out)
    assert str(out) in capsys.readouterr().out


def test_the_simulator_of_the_policy():
    example = load("sparse_policy")
    w = np.zeros(example.D)
    assert example.simulate(w, 3) == example.simulate(w, 3) != example.simulate(w, 4)
    # two days in one shop: 10 left over on the first, which stay; 5 customers go away on the second
    assert example.cost(np.array([[10.0], [-40.0]]), np.array([[100.0], [65.0]])) == (10.0 + 4 * 5.0) / 2
    signals, demand = example.world(np.random.default_rng(0), 400, 25)
    ideal = [0.0, *example.CAUSES.values()]
    left_over = demand - example.MEAN - signals[..., : len(ideal)] @ ideal
    assert left_over.std() == pytest.approx(example.NOISE, rel=0.05)
    copy = np.corrcoef(signals[..., 1].ravel(), signals[..., 6].ravel())[0, 1]
    assert copy == pytest.approx(0.7, abs=0.02)


def test_matrix_completion_small(tmp_path, capsys):
    errors = load("matrix_completion").main(seen=0.8, points=45, radii=(0.9, 1.0), out=tmp_path / "map.png")
    ours, nuclear = errors.values()
    assert ours < 0.05 and ours < nuclear
    assert "45 points, 1620 of 2025 distances measured" in capsys.readouterr().out
    assert_picture(tmp_path / "map.png")


@pytest.mark.slow
def test_categorical_small(tmp_path, capsys, monkeypatch):
    categorical = load("categorical")
    facts, y = categorical.read()
    monkeypatch.setattr(categorical, "read", lambda: (facts[["title", "class", "sex"]][::4], y[::4]))
    found = categorical.main(k=2, out=tmp_path / "facts.png")
    assert facts.shape == (1309, 8) and not facts.isna().to_numpy().any()
    printed = capsys.readouterr().out
    assert "the best 2 facts: title, class" in printed
    assert [round(row[0]) for row in found["paths"]["whole facts"]] == [1, 2, 3]
    assert_picture(tmp_path / "facts.png")


@pytest.mark.slow
def test_pathways_small(tmp_path, capsys):
    found = load("pathways").main(k=8, data=tmp_path, out=tmp_path / "genes.png", n_repeats=1)
    assert "simulated" in capsys.readouterr().out
    assert found["chosen"]["at most 1"].size == np.unique(found["chosen"]["at most 1"] // 8).size  # of 8 genes each
    assert_picture(tmp_path / "genes.png")


def test_multi_target_small(tmp_path, monkeypatch):
    multi_target = load("multi_target")
    monkeypatch.setattr(multi_target, "LEVELS", [2, 6])
    found = multi_target.main(k=6, out=tmp_path / "pixels.png")
    best, largest, random, bound = (dict(rows) for rows in found["curves"].values())
    assert all(bound[k] < best[k] < largest[k] < random[k] for k in (2, 6))
    assert_picture(tmp_path / "pixels.png")


def test_query_benchmark_small(tmp_path, capsys):
    out = tmp_path / "queries.png"
    queries = load("queries", "benchmarks")
    sparse, full, tuned = queries.query_complexity(sizes=(100, 300), figure=out).values()
    assert sparse[1] > 1.5 * sparse[0]
    assert max(full) < 2 * min(full)
    assert max(tuned) < min(full) / 5
    assert_picture(out)
    assert "queries.png" in capsys.readouterr().out
    assert_picture(ROOT / "docs" / "figures" / "query_complexity.png")


# ---- README ----


def page(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks(language, text=README):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def run(code):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    return output.getvalue()


def test_readme_quick_start():
    assert_printed(blocks("text")[0], run(blocks("python")[0]))


def test_readme_certificate():
    assert_printed(blocks("text")[2], run(blocks("python")[1]))


def test_readme_is_short():
    assert len(README.splitlines()) <= 150 and len(blocks("python")) == 2  # a new block needs a test here


def test_the_page_of_sets():
    matrices, own = blocks("python", page("sets"))
    assert run(matrices) == run(own) == ""


def test_an_offset_explains_rates():
    assert_printed(blocks("text", page("risks"))[0], run(blocks("python", page("risks"))[0]))


def test_a_black_box_in_three_lines():
    names = {}
    *_, code = blocks("python", page("risks"))
    exec(compile(code, "risks.md", "exec"), names)
    assert names["res"].fun < 1.01  # the best in the box is 1
    assert names["res"].n_values + names["res"].n_monitor <= 1000


@pytest.mark.parametrize(
    ("block", "options"), [(blocks("text")[1], {}), (blocks("text", page("methods"))[0], {"k": 30, "cap": 0.05})]
)
def test_demo_tables(block, options, tmp_path, capsys):
    load("demo").main(**options, out=tmp_path / "demo.png")
    assert_printed(block, capsys.readouterr().out)


def table(part):
    """The rows of the first table of a text, as lists of cells."""
    rows = re.search(r"(?:^\|.*\n)+", part, flags=re.MULTILINE).group().splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_table_of_sets():
    """Every set is there, and the column about supports is true."""
    names = {**vars(ez.sets), "c": [1.0, 2.0], "A": [[1.0, 1.0]], "b": [1.0], "groups": ["x", "y"]}
    seen = set()
    for examples, _, answer, _ in table(page("sets")):
        for code in re.findall(r"`(.*?)`", examples):
            example = eval(code, names)
            assert example.preserves_support == {"yes": True, "no": False}[answer], code
            seen.add(type(example).__name__)
    known = {name: getattr(ez.sets, name) for name in ez.sets.__all__ if name != "ConstraintSet"}
    exported = {name for name, kind in known.items() if issubclass(kind, ez.sets.ConstraintSet)}
    assert seen == exported, "docs/sets.md: the table must list exactly the sets of ellzero.sets"


def test_table_of_risks():
    seen = {re.match(r"`(\w+)\(", row[0]).group(1) for row in table(page("risks"))}
    known = {name: getattr(ez.risks, name) for name in ez.risks.__all__ if name not in ("LinearModel", "Risk")}
    exported = {name for name, kind in known.items() if isinstance(kind, type) and issubclass(kind, ez.risks.Risk)}
    assert seen == exported, "docs/risks.md: the table must list exactly the risks of ellzero.risks"


def test_table_of_methods():
    for row in table(page("methods")):
        assert ez.preset(row[0].strip('`"')).name == row[0].strip('`"')


def test_fields_of_a_result():
    fields = {
        name
        for row in table(page("methods").partition("## What a result tells")[2])
        for name in re.findall(r"`(\w+)`", row[0])
    }
    assert fields <= set(ez.Result.__dataclass_fields__) | {"success"}


@pytest.mark.parametrize(
    "document",
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))],
)
def test_files_that_documents_name_exist(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    named = re.findall(r"(?:examples|docs|src|tests|benchmarks)/[\w/.]*\w\.\w+|[A-Z]{5,}\.\w+", text)
    for name in named:
        assert (ROOT / name).exists(), name


# ---- docs ----


@pytest.mark.slow
def test_black_box_page(tmp_path, monkeypatch):
    """Its blocks run one after the other, as a reader would try them, and print what the page says."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "black-box.md").read_text(encoding="utf-8")
    names, printed, script = {"__name__": "page"}, "", None
    for language, block in re.findall(r"^```(python|text)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        if language == "text":
            assert_printed(block, printed)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(block, "black-box.md", "exec"), names)
        printed = output.getvalue()
        if "checkpoint=" in block:
            script, first = block, printed
    assert (tmp_path / "run.npz").exists()
    assert run(script) == first  # what a second start of the script finds

    assert set(re.findall(r"^\| `\"(\w+)\"` \|", page, flags=re.MULTILINE)) == set(POLICIES)


@pytest.mark.parametrize(
    ("name", "package"), [("larger-than-memory", "numpy"), ("clusters", "distributed"), ("any-loss", "torch")]
)
def test_pages_run_as_they_are_read(name, package, tmp_path, monkeypatch):
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    names, printed, n = {"__name__": "page"}, "", 0
    for language, block in re.findall(r"^```(python|text)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if language == "text":
            assert_printed(block, printed)
            n += 1
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(block, f"{name}.md", "exec"), names)
        printed = output.getvalue()
    assert n


def test_a_sparse_network_small(tmp_path, capsys):
    pytest.importorskip("torch")
    example = load("sparse_network")
    found = example.main(seeds=1, epochs=4, out=tmp_path / "network.png")
    assert_picture(tmp_path / "network.png")
    assert found["dense"][0].nonzeros == 18944
    for name, (told,) in found.items():
        assert told.accuracy > 0.3, name
        if name != "dense":
            assert told.nonzeros == 947, name
        if "box" in name:
            assert told.largest <= example.CAP
        if "norm" in name:
            assert all(told.norms[layer] <= r * (1 + 1e-6) for layer, r in example.RADII.items())
    assert "| SparseProjection, box |" in capsys.readouterr().out


def test_black_box_page_and_benchmark_agree():
    """The page's table has the lines of the benchmark."""
    page = (ROOT / "docs" / "black-box.md").read_text(encoding="utf-8")
    queries = load("queries", "benchmarks")
    head, *rows = re.findall(r"^\| ([^|`]+) \|((?: \d+ \|)+)$", page, flags=re.MULTILINE)
    assert {name for name, _ in rows} == {*queries.THEOREM, queries.TUNED}
    assert [int(d) for d in re.findall(r"\d+", head[1])] == list(queries.SIZES)


# ---- plot ----


@pytest.fixture
def results():
    problem = ez.datasets.make_regression(60, 20, 3)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    ball = ez.sets.L1Ball(1.0)
    return {name: ez.minimize(risk, 3, ball, method=name, max_iter=30) for name in ("IHT-2SP", "PGD+H")}


@pytest.mark.parametrize("x", ["iteration", "time", "n_gradients", "n_thresholds", "step", "change"])
def test_convergence_draws_every_history(results, x):
    ax = ez.plot.convergence(results, ax=plt.figure().subplots(), x=x)
    labelled = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert labelled.keys() == results.keys()
    if x == "iteration":
        for name, res in results.items():
            np.testing.assert_array_equal(labelled[name].get_ydata(), res.history.fun)
            np.testing.assert_array_equal(labelled[name].get_xdata(), np.arange(len(res.history)))
    dots = [line.get_ydata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert dots == [res.fun for res in results.values()]
    plt.close(ax.figure)


def test_convergence_leaves_out_what_was_not_monitored(results):
    problem = ez.datasets.make_regression(60, 20, 3)
    risk = ez.risks.LeastSquares(problem.X, problem.y)
    res = ez.minimize(risk, 3, method="IHT", monitor=4, max_iter=10, tol=0)
    ax = ez.plot.convergence({"IHT": res}, ax=plt.figure().subplots())
    assert ax.lines[0].get_xdata().tolist() == [0, 4, 8]
    plt.close(ax.figure)


def test_convergence_makes_its_own_axes_and_refuses_unknown_columns(results):
    plt.close(ez.plot.convergence(results).figure)
    with pytest.raises(ValueError, match="x must be 'iteration' or one of step, change, time"):
        ez.plot.convergence(results, x="iterations")


def test_weights_by_group_sums_and_caps():
    groups = ["a", "b", None, "a", "b"]
    weights = {"IHT-2SP": np.array([0.1, -0.5, 9.0, -0.2, 0.0]), "mine": [0.0, 0.0, 0.0, 0.4, 0.0]}
    ax = ez.plot.weights_by_group(weights, groups, cap={"a": 0.4})
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a"]
    widths = [[bar.get_width() for bar in bars] for bars in ax.containers]
    np.testing.assert_allclose(widths, [[0.5, 0.3], [0.0, 0.4]])
    caps = [segment[0, 0] for segment in ax.collections[0].get_segments() if len(segment)]
    assert 0.4 in caps
    plt.close(ax.figure)
    with pytest.raises(ValueError, match="'short' have shape .2,., and groups has 5 labels"):
        ez.plot.weights_by_group({"short": [1.0, 2.0]}, groups)


def test_a_method_has_one_colour_everywhere():
    style = ez.plot.styles(["IHT-2SP", "mine", "PGD+H", "yours"])
    assert style["IHT-2SP"] == ez.plot.styles(["a", "IHT-2SP"])["IHT-2SP"]
    assert len({s["color"] for s in style.values()}) == 4
    many = ez.plot.styles([str(i) for i in range(12)])
    assert len({tuple(s.values()) for s in many.values()}) == 12


def test_missing_matplotlib_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=re.escape("pip install ellzero[plot]")):
        ez.plot.convergence({})
