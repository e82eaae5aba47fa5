"""The command line: the same answers as in Python, files in and out, exit codes, one-line errors."""

import csv
import gzip
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

import ellzero as ez
from ellzero.cli import main

click = pytest.importorskip("click", reason="the command line needs click and rich: pip install ellzero[cli]")
pytest.importorskip("rich")
from rich.console import Console  # noqa: E402

from ellzero.cli import info  # noqa: E402
from ellzero.cli.app import app  # noqa: E402
from ellzero.cli.screen import Exit, Screen, run  # noqa: E402

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SP500 = DATA / "sp500_2021_2022"


def write_csv(path, header, rows):
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 12))
    return X, 3 * X[:, 1] - 2 * X[:, 4] + X[:, 7] + 0.5 * rng.standard_normal(100) + 4


@pytest.fixture(scope="module")
def folder(problem, tmp_path_factory):
    """The files that the examples of the help and of the documentation name."""
    X, y = problem
    path = tmp_path_factory.mktemp("cli")
    names = [f"f{i}" for i in range(X.shape[1])]
    rows = [[*row, target] for row, target in zip(X.tolist(), y.tolist(), strict=True)]
    write_csv(path / "table.csv", [*names, "price"], rows)
    write_csv(path / "table.csv.gz", [*names, "price"], rows)
    write_csv(path / "labels.csv", [*names, "buys"], [[*row[:-1], "yes" if row[-1] > 4 else "no"] for row in rows])
    write_csv(path / "three.csv", [*names, "kind"], [[*row[:-1], "abc"[(row[-1] > 3) + (row[-1] > 6)]] for row in rows])
    write_csv(path / "groups.csv", ["feature", "group"], [[name, "ab"[i % 2]] for i, name in enumerate(names)])
    lines = [
        f"{1 if t > 4 else -1} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(r))
        for r, t in zip(X.tolist(), y, strict=True)
    ]
    (path / "train.svm").write_text("\n".join(lines) + "\n")
    market = ez.datasets.make_market(n_days=320, n_assets=40, n_sectors=11)
    assets = ["AAPL", "XOM", *market.names[2:].tolist()]
    daily = np.column_stack([market.index_returns, market.returns])
    prices = 100 * np.cumprod(np.vstack([np.ones(41), 1 + daily]), axis=0)
    dates = np.busday_offset("2021-01-01", np.arange(321), roll="forward").astype(str)
    for file in ("prices.csv", "prices.csv.gz"):
        write_csv(
            path / file, ["date", "SPX", *assets], [[d, *row] for d, row in zip(dates, prices.tolist(), strict=True)]
        )
    write_csv(
        path / "returns.csv",
        ["date", "SPX", *assets],
        [[d, *row] for d, row in zip(dates[1:], daily.tolist(), strict=True)],
    )
    write_csv(path / "sectors.csv", ["symbol", "sector"], zip(assets, market.sectors.tolist(), strict=True))
    return path


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def ellzero(capsys):
    """Runs a command line; gives the exit code, stdout and stderr."""

    def call(line):
        code = main(shlex.split(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def answer(ellzero):
    """The JSON object of a command line that must succeed."""

    def call(line, code=0):
        got, out, err = ellzero(f"{line} --json")
        assert got == code, err
        return json.loads(out)

    return call


def vector(answer, size):
    x = np.zeros(size)
    for row in answer["weights"]:
        x[row["position"]] = row["weight"]
    return x


# ---- help and examples ----


def examples():
    """Every line of an Examples section, with the command it is about."""
    for name, command in app.commands.items():
        lines = re.findall(r"^ +(ellzero .*)$", command.epilog, flags=re.MULTILINE)
        assert lines, name
        yield from lines


@pytest.mark.parametrize("command", ["", *app.commands])
def test_help(ellzero, command):
    code, out, _ = ellzero(f"{command} --help")
    assert code == 0
    assert ("Examples:" in out) == (command != "")
    assert command or all(f"{int(exit)}  {exit.sentence}" in out for exit in Exit)
    assert max(map(len, out.splitlines())) <= 115


def test_options_have_the_names_of_parameters_in_python():
    """What only a command line can ask is listed here, so that no second word for the same thing slips in."""
    only_here = {
        *(
            "data",
            "target",
            "format",
            "out",
            "report",
            "seed",
            "json",
            "debug",
            "whole_groups",
            "bound",
        ),  # files, screens, one word for rng
        *("certify", "select", "validation", "weights", "train", "since", "prices", "returns", "sectors"),
    }
    fit = inspect.signature(ez.SparseRegressor.fit).parameters
    table = inspect.signature(ez.datasets.read_table).parameters
    model = {*inspect.signature(ez.SparseRegressor).parameters, *fit, *table}
    tracker = {*inspect.signature(ez.IndexTracker).parameters, *inspect.signature(ez.datasets.read_prices).parameters}
    run = {*inspect.signature(ez.minimize).parameters}
    known = {
        "fit": model | run,
        "path": model | run | {*inspect.signature(ez.minimize_path).parameters},
        "certify": model | run | {*inspect.signature(ez.certify).parameters},
        "track": tracker,
        "backtest": tracker | {*inspect.signature(ez.backtest).parameters},
        "reproduce": {*inspect.signature(ez.experiments.run).parameters},
    }
    for name, words in known.items():
        for option in app.commands[name].params:
            first = option.opts[0].removeprefix("--").replace("-", "_")
            assert first in words | only_here, (name, option.opts)


def test_without_arguments_it_helps(ellzero):
    assert ellzero("") == ellzero("--help")


@pytest.mark.parametrize("line", [line for line in examples() if "reproduce" not in line])
@pytest.mark.slow
def test_examples_of_the_help_run(ellzero, line, monkeypatch):
    monkeypatch.setattr("ellzero.cli.demo._METHODS", {"auto": "the default"})  # test_demo runs them all
    if "--weights" in line:
        assert ellzero("fit table.csv --target price --k 5 --out weights.csv")[0] == 0
    if "model.json new.csv" in line:
        assert ellzero("fit table.csv --target price --k 5 --out model.json")[0] == 0
        shutil.copy("table.csv", "new.csv")
    line = line.partition(" > ")[0].replace("--target y ", "--target price ").removeprefix("ellzero ")
    if line.startswith(("track", "backtest")):
        line += " --n-starts 1"
    code, out, err = ellzero(line)
    assert code == 0, err
    assert out
    for option in ("--out", "--report"):
        if option in line:
            assert Path(line.split(f"{option} ")[1].split()[0]).stat().st_size > 0


def test_reproduce_hands_everything_on(ellzero, answer, monkeypatch, tmp_path):
    from ellzero import experiments

    asked = {}

    class Report:
        page = tmp_path / "index.html"
        paths = (page,)
        claims = ()

    def pretend(name, **options):
        asked.update(options, name=name)
        options["progress"](1, 2, "half")
        Report.page.write_text("x")
        return Report()

    monkeypatch.setattr(experiments, "run", pretend)
    found = answer(
        f"reproduce index-tracking --out {tmp_path} --full --seed 3 --prices prices.csv --sectors sectors.csv"
    )
    assert found["page"] == str(Report.page)
    del asked["progress"]
    expected = {"name": "index-tracking", "out": str(tmp_path), "full": True, "seed": 3, "n_jobs": None}
    assert asked == {**expected, "prices": ["prices.csv"], "sectors": ["sectors.csv"]}
    code, _, err = ellzero("reproduce everything")
    assert code == 2 and "'everything' is no experiment" in err


# ---- fit ----


def test_fit_is_the_estimator(answer, problem):
    X, y = problem
    found = answer("fit table.csv --target price --k 3 --constraint nonnegative --ridge 0.1")
    model = ez.SparseRegressor(k=3, constraint="nonnegative", ridge=0.1).fit(X, y)
    np.testing.assert_allclose(vector(found, 12), model.coef_, rtol=1e-12)
    assert found["intercept"] == pytest.approx(model.intercept_, rel=1e-12)
    assert found["answer"]["objective"] == pytest.approx(model.result_.fun, rel=1e-12)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize(
    "method", ["auto", "IHT", "IHT-2SP", "PGD", "PGD+H", "IHT+P", "SVRG-HT", "HSG-HT-2SP", "exact"]
)
def test_every_method_gives_what_it_gives_the_estimator(ellzero, problem, method, standardize):
    X, y = problem
    X = X * np.geomspace(0.01, 100, 12)
    rows = [[*row, target] for row, target in zip(X.tolist(), y.tolist(), strict=True)]
    write_csv(Path("unequal.csv"), [*(f"f{i}" for i in range(12)), "price"], rows)
    seed = np.random.RandomState(3).randint(2**31)  # what the estimator draws
    flag = "--standardize" if standardize else "--no-standardize"
    line = f"fit unequal.csv --target price --k 3 --method {method} --max-iter 20 --seed {seed} {flag} --json"
    found = json.loads(ellzero(line)[1])
    model = ez.SparseRegressor(k=3, method=method, max_iter=20, random_state=3, standardize=standardize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    np.testing.assert_allclose(vector(found, 12), model.coef_, rtol=1e-12)
    assert found["answer"]["objective"] == pytest.approx(model.result_.fun, rel=1e-12)


@pytest.mark.parametrize(("file", "target"), [("labels.csv", "buys"), ("three.csv", "kind")])
def test_fit_of_text_labels_is_the_classifier(answer, problem, file, target):
    X, y = problem
    found = answer(f"fit {file} --target {target} --loss logistic --k 4")
    labels = np.where(y > 4, "yes", "no") if target == "buys" else np.array(list("abc"))[(y > 3).astype(int) + (y > 6)]
    model = ez.SparseClassifier(k=4).fit(X, labels)
    np.testing.assert_allclose(vector(found, model.coef_.size), model.coef_.ravel(), rtol=1e-9)
    np.testing.assert_allclose(found["intercept"], model.intercept_.squeeze(), rtol=1e-9)


@pytest.mark.parametrize(
    ("word", "loss"),
    [
        ("huber:0.5", ("huber", 0.5)), ("quantile", "quantile"), ("quantile:0.9", ("quantile", 0.9)),
        ("poisson", "poisson"), ("gamma", "gamma"), ("squared", "squared"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("offset", [None, "f3"])
def test_fit_of_other_losses_with_an_offset(answer, problem, word, loss, offset):
    X, y = problem
    y = np.exp(0.2 * y) if word in ("poisson", "gamma") else y
    write_csv(Path("amounts.csv"), [*(f"f{i}" for i in range(12)), "price"], np.column_stack([X, y]))
    found = answer(f"fit amounts.csv --target price --loss {word} --k 3" + (f" --offset {offset}" if offset else ""))
    assert found["question"]["offset"] == offset and found["question"]["loss"] == word
    others = np.delete(np.arange(12), 3) if offset else np.arange(12)
    model = ez.SparseRegressor(k=3, loss=loss).fit(X[:, others], y, offset=X[:, 3] if offset else None)
    assert found["answer"]["objective"] == pytest.approx(model.result_.fun, rel=1e-9)
    assert {row["name"] for row in found["weights"]} == {f"f{others[j]}" for j in np.flatnonzero(model.coef_)}


@pytest.mark.slow
def test_fit_of_squared_hinge_and_words_of_quantiles(answer, ellzero, problem):
    X, y = problem
    found = answer("fit labels.csv --target buys --loss squared_hinge --k 4")
    model = ez.SparseClassifier(k=4, loss="squared_hinge").fit(X, np.where(y > 4, "yes", "no"))
    np.testing.assert_allclose(vector(found, 12), model.coef_.ravel(), rtol=1e-9)
    out = ellzero("path table.csv --target price --ks 3 --loss quantile:0.8 --validation 0.3")[1]
    assert "quantile:0.8 loss, smoothed: at most" in out and "below the pinball loss" in out
    svm = answer("fit train.svm --loss logistic --k 2 --offset x4")
    assert "x4" not in {row["name"] for row in svm["weights"]} and svm["question"]["columns"] == 11


@pytest.mark.parametrize("groups", [None, "groups.csv"])
def test_fit_of_several_classes_asks_what_the_classifier_asks(answer, problem, groups):
    """The cap and what is kept hold in every class, and in every group of it."""
    X, y = problem
    labels = np.array(list("abc"))[(y > 3).astype(int) + (y > 6)]
    line = "fit three.csv --target kind --loss logistic --k 6 --constraint l1:0.3 --keep f2"
    found = answer(line if groups is None else f"{line} --groups {groups}")
    of = None if groups is None else np.arange(12) % 2
    model = ez.SparseClassifier(k=6, constraint=ez.sets.L1Ball(0.3), groups=of, keep=[2], standardize=False)
    model.fit(X, labels)
    np.testing.assert_allclose(vector(found, 36), model.coef_.ravel(), rtol=1e-9, atol=1e-12)
    assert found["answer"]["constraint"].startswith("GroupWise") and np.abs(model.coef_).sum() > 0.3 * (1 + 1e-9)


def test_fit_of_several_targets_is_the_regressor(answer, ellzero, problem, tmp_path):
    X, y = problem
    found = answer(f"fit table.csv --target price --target f3 --k 2 --keep f5 --out {tmp_path}/w.csv")
    names, Y = [f"f{i}" for i in range(12) if i != 3], np.column_stack([y, X[:, 3]])
    model = ez.SparseRegressor(k=2, keep=[names.index("f5")]).fit(np.delete(X, 3, axis=1), Y)
    np.testing.assert_allclose(vector(found, 22), model.coef_.ravel(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["intercept"], model.intercept_, rtol=1e-9)
    assert {row["name"].split(": ")[0] for row in found["weights"]} == {"price", "f3"}
    rows = {row["name"]: float(row["weight"]) for row in read_csv(tmp_path / "w.csv")}
    assert [rows["price: (intercept)"], rows["f3: (intercept)"]] == found["intercept"]
    assert found["question"]["target"] == "price, f3"
    assert (
        "several '--target' are for the squared loss"
        in ellzero("fit table.csv --target price --target f3 --k 2 --loss huber")[2]
    )
    assert "has no column 'f99'" in ellzero("fit table.csv --target price --target f99 --k 2")[2]
    assert "'--target f3' was given twice" in ellzero("fit table.csv --target f3 --target f3 --k 2")[2]


def test_several_targets_take_an_offset(answer, problem):
    X, y = problem
    found = answer("path table.csv --target price --target f3 --offset f0 --ks 2 --validation 0.25")
    rest = [1, 2, *range(4, 12)]
    model = ez.SparseRegressor(k=found["answer"]["k"]).fit(X[:, rest], np.column_stack([y, X[:, 3]]), offset=X[:, 0])
    np.testing.assert_allclose(vector(found, 20), model.coef_.ravel(), rtol=1e-9, atol=1e-12)


def test_fit_by_groups_is_the_regressor(answer, ellzero, problem, folder):
    X, y = problem
    groups = np.array(list("ab"))[np.arange(12) % 2]
    found = answer("fit table.csv --target price --k 1 --groups groups.csv --whole-groups")
    model = ez.SparseRegressor(k=1, groups=groups, select="groups").fit(X, y)
    np.testing.assert_allclose(vector(found, 12), model.coef_, rtol=1e-9)
    assert len({row["group"] for row in found["weights"]}) == 1 and len(found["weights"]) == 6
    found = answer("fit three.csv --target kind --loss logistic --k 1 --groups groups.csv --whole-groups")
    assert {row["group"] for row in found["weights"]} in ({"a"}, {"b"}) and len(found["weights"]) == 18
    found = answer("fit table.csv --target price --k 3 --groups groups.csv --at-most 2 --constraint l1:1.5")
    model = ez.SparseRegressor(k=3, groups=groups, at_most=2, constraint=ez.sets.L1Ball(1.5)).fit(X, y)
    np.testing.assert_allclose(vector(found, 12), model.coef_, rtol=1e-9)
    assert (
        "--k=3 is more than there are groups; use at most 2"
        in ellzero("fit table.csv --target price --k 3 --groups groups.csv --whole-groups")[2]
    )
    assert "need '--groups'" in ellzero("fit table.csv --target price --k 3 --at-most 2")[2]
    path = answer("path table.csv --target price --ks 2 --groups groups.csv --whole-groups")
    assert [row["k"] for row in path["path"]] == [1, 2] and [row["nonzeros"] for row in path["path"]] == [6, 12]
    level = np.arange(len(y)) % 3
    dummies = [
        [*row, *np.eye(3)[i].astype(int), t]
        for row, i, t in zip(X[:, :2].tolist(), level, (y + level).tolist(), strict=True)
    ]
    write_csv(folder / "dummies.csv", ["age", "size", "kind_a", "kind_b", "kind_c", "price"], dummies)
    found = answer("fit dummies.csv --target price --k 2 --groups onehot --whole-groups")
    assert {row["group"] for row in found["weights"]} == {"kind", "size"} or len(found["weights"]) in (2, 4)
    assert "no two columns" in ellzero("fit table.csv --target price --k 2 --groups onehot --whole-groups")[2]


def test_fit_in_groups_obeys_the_caps(answer, problem):
    found = answer("fit table.csv --target price --k 4 --constraint l1:1.5 --groups groups.csv")
    x = vector(found, 12)
    groups = np.arange(12) % 2
    assert {row["group"] for row in found["weights"]} <= {"a", "b"}
    for g in (0, 1):
        assert np.abs(x[groups == g]).sum() <= 1.5 * (1 + 1e-12)
    X, y = problem
    gamma = ez.sets.GroupWise(ez.sets.L1Ball(1.5), groups=groups)
    res = ez.minimize(ez.risks.LeastSquares(X, y, fit_intercept=True), 4, gamma)
    assert found["answer"]["objective"] == pytest.approx(res.fun)


def test_fit_of_libsvm_and_fractions(answer, ellzero):
    found = answer("fit train.svm --loss logistic --k 0.25 --no-fit-intercept")
    assert found["answer"]["k"] == 3 and found["intercept"] == 0.0
    assert {row["name"] for row in found["weights"]} == {"x1", "x4", "x7"}
    Path("train.txt").write_text(Path("train.svm").read_text())
    assert (
        answer("fit train.txt --format libsvm --loss logistic --k 0.25 --no-fit-intercept")["weights"]
        == found["weights"]
    )


def test_fit_keeps_what_is_asked(answer):
    found = answer("fit table.csv --target price --k 2 --keep f0")
    assert {row["name"] for row in found["weights"]} == {"f0", "f1"}


def test_fit_for_people(ellzero):
    code, out, _ = ellzero("fit table.csv --target price --k 3 --certify 0")
    assert code == 0
    assert "100 rows, 12 columns; squared loss" in out and "3 of at most 3" in out and "proven optimal" in out
    assert re.findall(r"^ (f\d+) +(-?[\d.]+)", out, flags=re.MULTILINE)[0][0] == "f1"


def test_weights_go_out_and_come_back(answer, ellzero, tmp_path):
    found = answer(f"fit table.csv --target price --k 3 --out {tmp_path}/w.csv")
    rows = read_csv(tmp_path / "w.csv")
    written = [(w["name"], w["weight"]) for w in found["weights"]] + [("(intercept)", found["intercept"])]
    assert [(row["name"], float(row["weight"])) for row in rows] == written
    assert ellzero(f"fit table.csv --target price --k 3 --out {tmp_path}/deep/w.json")[0] == 0
    saved = json.loads((tmp_path / "deep" / "w.json").read_text())
    assert saved["weights"] == found["weights"] and saved["question"]["sha256"] == found["question"]["sha256"]
    for file in ("w.csv", "deep/w.json"):
        proved = answer(f"certify table.csv --target price --k 3 --weights {tmp_path}/{file}")
        assert proved["answer"]["objective"] == pytest.approx(found["answer"]["objective"], rel=1e-12)
        assert proved["certificate"]["lower_bound"] <= found["answer"]["objective"]
        assert proved["certificate"]["relative_gap"] <= 1e-5


def test_intercepts_of_classes_go_out_and_come_back(answer, ellzero, tmp_path):
    line = "three.csv --target kind --loss logistic --k 4"
    found = answer(f"fit {line} --out {tmp_path}/w.csv")
    rows = {row["name"]: float(row["weight"]) for row in read_csv(tmp_path / "w.csv")}
    assert [rows[f"{label}: (intercept)"] for label in "abc"] == found["intercept"]
    assert found["question"]["classes"] == list("abc")
    code, out, err = ellzero(f"certify {line} --weights {tmp_path}/w.csv --time-limit 0.1 --target-gap 10 --json")
    assert code in (0, 5), err  # whether or not a gap is proved
    proved = json.loads(out)
    np.testing.assert_allclose(proved["intercept"], found["intercept"], rtol=1e-9)
    assert "(intercept)" not in "".join(row["name"] for row in proved["weights"])


def test_another_intercept_is_told(ellzero, tmp_path):
    line = "certify table.csv --target price --k 3 --weights"
    assert ellzero(f"fit table.csv --target price --k 3 --out {tmp_path}/w.csv")[0] == 0
    assert "the intercept of this question" not in ellzero(f"{line} {tmp_path}/w.csv")[1]
    text = re.sub(r"(\(intercept\)),[^,]*", r"\1,17", (tmp_path / "w.csv").read_text())
    (tmp_path / "w.csv").write_text(text)
    assert f"not that of {tmp_path}/w.csv" in ellzero(f"{line} {tmp_path}/w.csv")[1]


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"weights": [1]}', '{"weights": [{"name": "f1"}]}', '{"weights": 3}', "null"]
)
def test_a_file_of_weights_that_is_none(ellzero, text, tmp_path):
    (tmp_path / "w.json").write_text(text)
    code, _, err = ellzero(f"certify table.csv --target price --k 3 --weights {tmp_path}/w.json")
    assert code == 3 and "must be what --out wrote" in err and len(err.splitlines()) == 1


def test_the_report_says_what_was_asked(ellzero, answer, tmp_path):
    line = f"fit table.csv --target price --k 3 --ridge 0.25 --keep f2 --report {tmp_path}/r.html"
    found = answer(line)
    page = re.sub(r"<[^>]+>", " ", (tmp_path / "r.html").read_text(encoding="utf-8"))
    asked, told = page.split("What was asked")[-1].split("The answer")[:2]
    for words in ("100 rows, 12 columns", "price", "squared", "0.25", "f2", "fitted; not counted"):
        assert words in asked, words
    assert f"{found['intercept']:.6g}" in told.split("What was selected")[0]
    assert found["question"]["target"] == "price"


def test_a_stopped_run_says_so_and_still_writes(ellzero, tmp_path):
    code, _, _ = ellzero(f"fit table.csv --target price --k 3 --method IHT --time-limit 1e-9 --out {tmp_path}/w.csv")
    assert code == Exit.STOPPED and (tmp_path / "w.csv").exists()
    assert ellzero("fit table.csv --target price --k 3 --method IHT --max-iter 1")[0] == Exit.STOPPED
    assert ellzero("fit table.csv --target price --k 3 --method IHT")[0] == Exit.OK


def test_the_exact_method_proves_its_answer(answer):
    found = answer("fit table.csv --target price --k 3 --method exact --time-limit 20")
    assert found["answer"]["certificate"]["relative_gap"] <= 1e-5


# ---- path and certify ----


def test_path_is_minimize_path(answer, problem):
    X, y = problem
    found = answer("path table.csv --target price --ks 5 --select ebic")
    path = ez.minimize_path(ez.risks.LeastSquares(X, y, fit_intercept=True), 5)
    np.testing.assert_allclose([row["objective"] for row in found["path"]], path.fun, rtol=1e-12)
    np.testing.assert_allclose([row["ebic"] for row in found["path"]], path.criterion("ebic"), rtol=1e-12)
    assert found["answer"]["k"] == path.select("ebic").k == 3


def test_path_holds_rows_out(answer):
    found = answer("path table.csv --target price --ks 2:6:2 --validation 0.3 --seed 1")
    assert [row["k"] for row in found["path"]] == [2, 4, 6]
    best = min(found["path"], key=lambda row: row["held_out"])
    assert found["rule"] == "validation" and found["answer"]["k"] == best["k"]
    assert answer("path table.csv --target price --ks 2:6:2 --validation 0.3 --seed 2")["path"] != found["path"]


def test_path_fits_the_chosen_k_on_all_rows(answer, ellzero, problem, tmp_path):
    X, y = problem
    line = f"path table.csv --target price --ks 5 --validation 0.3 --report {tmp_path}/r.html"
    found = answer(line)
    model = ez.SparseRegressor(k=found["answer"]["k"]).fit(X, y)
    np.testing.assert_allclose(vector(found, 12), model.coef_, rtol=1e-9)
    assert found["intercept"] == pytest.approx(model.intercept_)
    assert (found["path_fitted_on"], found["answer_fitted_on"]) == ("70 of 100 rows", "all rows")
    assert "the path was fitted on 70 of 100 rows, the weights for" in ellzero(line)[1]
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "on a path fitted on 70 of 100 rows" in page and "all 100 rows" in page


def test_path_starts_at_what_is_kept(answer):
    found = answer("path table.csv --target price --ks 4 --keep f0 --keep f2")
    assert [row["k"] for row in found["path"]] == [2, 3, 4]


def test_certify_exit_code_tells_whether_the_target_was_reached(ellzero, answer):
    assert answer("certify table.csv --target price --k 3 --target-gap 0.5")["certificate"]["relative_gap"] <= 0.5
    rng = np.random.default_rng(0)
    write_csv(Path("hard.csv"), [*(f"x{i}" for i in range(60)), "y"], rng.standard_normal((40, 61)).tolist())
    code, out, _ = ellzero("certify hard.csv --target y --k 10 --time-limit 0.2")
    assert code == Exit.STOPPED and "lower bound" in out


# ---- portfolios ----


def assert_mandate(weights, sectors, k, cap, total=1.0):
    w = np.array([row["weight"] for row in weights])
    assert 0 < w.size <= k and (w > 0).all()
    assert abs(w.sum() - total) <= 1e-12
    for sector in set(sectors.values()):
        assert sum(row["weight"] for row in weights if sectors[row["name"]] == sector) <= cap * (1 + 1e-12)


def test_track_is_the_tracker(answer, folder):
    found = answer(
        "track --prices prices.csv.gz --sectors sectors.csv --k 8 --max-sector-weight 0.3 --n-starts 2 --certify 0"
    )
    sectors = ez.datasets.read_sectors("sectors.csv")
    assert_mandate(found["weights"], sectors, 8, 0.3)
    train, test = ez.datasets.read_prices("prices.csv", sectors=sectors).split()
    tracker = ez.IndexTracker(k=8, max_sector_weight=0.3, n_starts=2).fit(*train.to_pandas()[:2], groups=sectors)
    np.testing.assert_allclose(vector(found, 40), tracker.weights_, rtol=1e-12)
    assert found["summary"]["tracking error out of sample"] == pytest.approx(
        tracker.tracking_error(*test.to_pandas()[:2])
    )
    assert found["answer"]["certificate"]["lower_bound"] <= found["answer"]["objective"]


def test_track_says_what_took_how_long(ellzero):
    line = "track --prices prices.csv --k 5 --n-starts 1"
    assert re.search(r"^solved in [\d.]+ s$", ellzero(line)[1], flags=re.MULTILINE)
    assert re.search(r"^solved in [\d.]+ s, proved in [\d.]+ s$", ellzero(f"{line} --certify 0")[1], flags=re.MULTILINE)


def test_track_options(answer):
    line = "track --returns returns.csv --index SPX --k 6 --min-weights -0.1 --budget 0.9:1 --min-weights XOM=0.05 --keep AAPL --max-weights 0.4"
    found = answer(f"{line} --error variance --n-starts 1 --since 2021-03-01 --train 1")
    weights = {row["name"]: row["weight"] for row in found["weights"]}
    assert weights["XOM"] >= 0.05 and max(weights.values()) <= 0.4 and min(weights.values()) >= -0.1
    assert 0.9 - 1e-12 <= sum(weights.values()) <= 1 + 1e-12 and len(weights) <= 6
    assert "tracking error out of sample" not in found["summary"] and found["question"]["days"] < 320


@pytest.mark.slow
def test_backtest_is_the_backtest(answer, ellzero, tmp_path):
    line = "backtest --prices prices.csv --sectors sectors.csv --k 8 --max-sector-weight 0.3 --n-starts 1 --window 260 --cost 0.001"
    found = answer(f"{line} --out {tmp_path}/w.csv --report {tmp_path}/walk.html")
    returns, index, sectors = ez.datasets.read_prices("prices.csv", sectors="sectors.csv").to_pandas()
    tracker = ez.IndexTracker(k=8, max_sector_weight=0.3, n_starts=1)
    walk = ez.backtest(tracker, returns, index, sectors, window=260, every="month", cost=0.001)
    assert found["summary"]["tracking error"] == pytest.approx(walk.tracking_error)
    assert len(found["rebalancings"]) == len(walk.weights)
    assert {row["date"] for row in read_csv(tmp_path / "w.csv")} == {r["date"] for r in found["rebalancings"]}
    page = (tmp_path / "walk.html").read_text(encoding="utf-8")
    assert all(r["date"] in page for r in found["rebalancings"]) and "not seen by the fit" in page
    assert ellzero(f"{line} --every 60")[0] == 0


@pytest.mark.skipif(not SP500.exists(), reason=f"{SP500} is not here")
@pytest.mark.slow
def test_track_on_the_real_market_in_ten_seconds(tmp_path):
    """In a process of its own, as a user starts it; seconds of the processor, which others on the machine do not slow."""
    import resource

    line = f"track --prices {SP500}/prices.csv.gz --sectors {SP500}/sectors.csv --k 15 --max-sector-weight 0.1 --json"
    command = [sys.executable, "-m", "ellzero", *shlex.split(line), "--report", str(tmp_path / "out.html")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 10
    assert_mandate(json.loads(done.stdout)["weights"], ez.datasets.read_sectors(SP500 / "sectors.csv"), 15, 0.1)
    assert (tmp_path / "out.html").stat().st_size > 50_000


def test_demo(answer, tmp_path, monkeypatch):
    monkeypatch.setattr("ellzero.cli.demo._MAX_ITER", 200)
    found = answer(f"demo --k 10 --cap 0.2 --seed 1 --report {tmp_path}/demo.html")
    assert [m["method"] for m in found["methods"]] == ["auto", "IHT-2SP", "PGD+H", "IHT+P"]
    assert all(m["nonzeros"] <= 10 and m["violation"] <= 1e-12 for m in found["methods"])
    assert "A simulated index" in (tmp_path / "demo.html").read_text(encoding="utf-8")


def test_info(answer, ellzero):
    found = answer("info")
    assert found["ellzero"] == ez.__version__ and found["extras"]["cli"] is True and "IHT-2SP" in found["methods"]
    assert found["numpy"] == np.__version__
    assert ellzero("info")[1].count("pip install") == sum(not here for here in found["extras"].values())
    code, out, _ = ellzero("--version")
    assert code == 0 and ez.__version__ in out


# ---- errors ----


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("fit table.csv --target price", 2, "Missing option '--k'; see ellzero fit --help"),
        ("fit table.csv --k 3", 2, "Missing option '--target'"),
        ("fit table.csv --target price --k three", 2, "'three' is neither a number of nonzeros"),
        ("fit table.csv --target price --k 99", 2, "--k=99 is more than there are coefficients"),
        ("fit table.csv --target price --k 3 --constraint l3:1", 2, "'l3:1' is no constraint; write one of nonnegative"),
        ("fit table.csv --target price --k 3 --constraint box:1", 2, "needs 2 number(s)"),
        ("fit table.csv --target price --k 3 --constraint l1:x", 2, "'x' in 'l1:x' must be numbers"),
        ("fit table.csv --target price --k 3 --constraint l1:-1", 2, "radius must lie in"),
        ("fit table.csv --target price --k 3 --groups groups.csv", 2, "'--groups' needs '--constraint'"),
        ("fit table.csv --target price --k 3 --method magic", 2, "unknown method 'magic'; there are"),
        ("fit table.csv --target price --k 3 --method IHT --constraint nonnegative", 2, "knows no constraint"),
        ("fit table.csv --target price --k nan", 2, "--k as a fraction must lie in (0, 1], got --k=nan"),
        ("fit table.csv --target price --k inf", 2, "--k as a fraction must lie in (0, 1], got --k=inf"),
        ("fit table.csv --target price --k 3 --method magic", 2, "and in minimize exact"),
        ("path table.csv --target price --ks 99", 2, "--ks=99 is more than there are coefficients"),
        ("path table.csv --target price --ks 5:50:5", 2, "use at most 12"),
        ("track --prices prices.csv --k 100", 2, "--k 100 is more than the 40 assets there are; use at most 40"),
        ("track --prices prices.csv --k 3 --since garbage", 2, "'--since garbage' is no date; write one such as"),
        ("demo --k 5000", 2, "--k 5000 is more than the"),
        ("path table.csv --target price --ks x", 2, "'x' names no k; write 20"),
        ("path table.csv --target price --ks 4 --select validation", 2, "add '--validation 0.2'"),
        ("fit table.csv --target price --k 3 --loss cubic", 2, "'cubic' is no loss; write one of squared, huber[:DELTA]"),
        ("fit table.csv --target price --k 3 --loss quantile:high", 2, "'quantile:high' is no loss; write one of"),
        ("fit table.csv --target price --k 3 --loss quantile:1.5", 2, "quantile must lie in (0, 1), got quantile=1.5"),
        ("fit table.csv --target price --k 3 --offset f99", 3, "--offset f99: table.csv has no such column"),
        ("path table.csv --target price --ks 4 --loss quantile:0.9", 2, "The quantile loss has no likelihood for ebic"),
        ("path table.csv --target price --ks 4 --loss huber", 2, "hold out rows with '--validation 0.2'"),
        ("track --k 3", 2, "give either '--prices FILE' or '--returns FILE'"),
        ("track --prices prices.csv --k 3 --max-sector-weight 0.1", 2, "add '--sectors FILE'"),
        ("track --prices prices.csv --k 3 --budget much", 2, "'much' is no budget"),
        ("track --prices prices.csv --k 3 --min-weights XOM=lots", 2, "needs a number, such as 0.05 for every asset or AAPL=0.02 for one"),
        ("backtest --prices prices.csv --k 3 --every often", 2, "'often' is neither a number of days nor week"),
        ("nothing", 2, "No such command 'nothing'"),
        ("fit missing.csv --target price --k 3", 3, "missing.csv: there is no such file; check the path"),
        ("fit . --target price --k 3", 3, "this is a folder"),
        ("fit table.csv --target cost --k 3", 3, "table.csv has no column 'cost'; its columns are"),
        ("fit labels.csv --target buys --k 3", 3, "line 2, column 'buys': 'yes' is not a number"),
        ("fit table.csv --target price --k 3 --keep f99", 3, "--keep f99: table.csv has no such column"),
        ("fit table.csv --target price --k 3 --constraint l1:1 --groups sectors.csv", 3, "no group for 'f0'"),
        ("fit table.csv --target price --k 3 --constraint l1:1 --groups table.csv", 3, "the header must name feature and group"),
        ("fit table.csv --target price --k 3 --out table.csv/w.csv", 3, "cannot be written there"),
        ("certify table.csv --target price --k 3 --weights sectors.csv", 3, "the header must name name and weight"),
        ("track --prices prices.csv --k 3 --keep IBM", 3, "--keep IBM: prices.csv has no such asset"),
        ("track --prices prices.csv --k 3 --max-weights IBM=0.1", 3, "--max-weights IBM: prices.csv has no such asset"),
        ("track --prices prices.csv --k 3 --since 2099-01-01", 3, "must not be after the last day"),
        ("track --prices prices.csv --sectors groups.csv --k 3", 3, "groups.csv has no column 'symbol'"),
        ("track --prices prices.csv --k 15 --max-weights 0.05", 4, "15 names capped at 5% can hold 75%, but the budget is 100%; raise --k to at least 20"),
        ("fit table.csv --target price --k 1 --constraint box:0.5,1", 4, "k=1"),
    ],
)  # fmt: skip
def test_errors_are_one_line_with_the_remedy(ellzero, line, code, words):
    got, _, err = ellzero(line)
    assert got == code, err
    assert words in err
    assert err.startswith("error: ") and len(err.splitlines()) == 1 and "Traceback" not in err


def test_errors_for_machines_and_developers(ellzero):
    code, out, _ = ellzero("fit missing.csv --target y --k 3 --json")
    assert (
        json.loads(out) == {"error": "missing.csv: there is no such file; check the path", "exit_code": 3} and code == 3
    )
    code, _, err = ellzero("fit missing.csv --target y --k 3 --debug")
    assert code == 3 and "Traceback" in err and err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("x"), 1, "ZeroDivisionError: x; please report it"),
        (ImportError("this needs pandas: pip install 'ellzero[portfolio]'"), 6, "pip install 'ellzero[portfolio]'"),
        (ImportError("No module named 'matplotlib'", name="matplotlib"), 6, "pip install 'ellzero[all]'"),
        (ez.sets.EmptySlice("nothing fits"), 4, "nothing fits"),
        (PermissionError(13, "Permission denied"), 3, "Permission denied"),
    ],
)
def test_exit_codes_of_what_can_happen(error, code, words, capsys):
    @click.command()
    def broken():
        raise error

    assert run(broken, []) == code
    assert words in capsys.readouterr().err


def test_without_the_extra_the_message_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main([]) == 6
    assert capsys.readouterr().err == "error: the command line needs rich; pip install 'ellzero[cli]'\n"


# ---- the terminal ----


def test_progress_is_drawn_on_terminals_alone():
    target = io.StringIO()
    screen = Screen(err=Console(file=target, force_terminal=True, width=100))
    with screen.progress("working", 4) as update:
        update(2, "half of it")
    assert "working" in target.getvalue() and "half of it" in target.getvalue()
    for quiet in (Screen(err=Console(file=io.StringIO(), width=100)), Screen(machine=True, err=screen.err)):
        before = quiet.err.file.getvalue()
        with quiet.progress("working") as update:
            update(1, "x")
        assert quiet.err.file.getvalue() == before


def test_the_module_runs_survives_a_closed_pipe_and_imports_lazily():
    code = "import sys, ellzero, ellzero.cli; print([m for m in ('click', 'rich', 'pandas', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    line = f"{sys.executable} -m ellzero info --json | head -n 1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert done.stdout == "{\n" and done.stderr == ""


# ---- documentation ----


@pytest.mark.slow
def test_the_page_about_the_command_line(ellzero, tmp_path, monkeypatch):
    """Its blocks run one after the other and print what the page says."""
    from common import assert_printed

    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    ran = set()
    for language, block in re.findall(r"^```(python|console)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, "command-line.md", "exec"), {"__name__": "page"})
            continue
        for typed in block.removeprefix("$ ellzero ").split("\n$ ellzero "):
            line, _, expected = typed.partition("\n")
            code, out, err = ellzero(line)
            assert code == (4 if expected.startswith("error") else 0), err
            if expected.strip():
                assert_printed(expected.rstrip(), err + out)
            ran.add(line.split()[0])
    assert ran == {"fit", "path", "certify", "predict", "track", "backtest"}
    named = set(re.findall(r"^\| `ellzero (\w+)` \|", page, flags=re.MULTILINE))
    assert named == set(app.commands)
    codes = {int(code): text for code, text in re.findall(r"^\| (\d+) \| (.*) \|$", page, flags=re.MULTILINE)}
    assert codes == {int(exit): exit.sentence for exit in Exit}


def test_ctrl_c_in_a_fit_writes_the_best_so_far(ellzero, monkeypatch):
    """And no proof is begun, which would take as long again."""

    def interrupted(*args, **options):
        def stop(now):
            raise KeyboardInterrupt

        return ez.minimize(*args, **options, callback=stop)

    monkeypatch.setattr("ellzero.estimators.request.minimize", interrupted)
    monkeypatch.setattr("ellzero.cli.fit.prove", lambda *args: pytest.fail("a proof after Ctrl-C"))
    code, out, err = ellzero("fit table.csv --target price --k 3 --certify 60 --out stopped.csv")
    assert code == Exit.STOPPED and "interrupted from outside" in out and not err
    assert read_csv(Path("stopped.csv"))


def test_ctrl_c_in_a_path_says_how_far_it_came(ellzero, monkeypatch):
    calls = []

    def interrupted(*args, **options):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return ez.minimize(*args, **options)

    monkeypatch.setattr(sys.modules["ellzero.minimize"], "minimize", interrupted)
    code, out, err = ellzero("path table.csv --target price --ks 6 --out path.csv")
    assert code == 130 and "interrupted after 2 answers for 6 k" in err and "nothing is written" in err
    assert "Traceback" not in out + err and not Path("path.csv").exists()


def test_info_names_the_extras_that_there_are():
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(info._EXTRAS) == set(project["project"]["optional-dependencies"]) - {"all", "test", "dev"}
