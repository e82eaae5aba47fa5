"""Files as they are: separators, decimal signs, text, missing values, pipes, Parquet, Excel, and saved models."""

import io
import json
import shlex
import sys

import numpy as np
import pytest

import ellzero as ez

pytest.importorskip("click", reason="the command line needs click and rich: pip install ellzero[cli]")
pytest.importorskip("rich")
pandas = pytest.importorskip("pandas")
from ellzero.cli import main  # noqa: E402

RNG = np.random.default_rng(3)
N = 60


def frame():
    """Houses: numbers, a text, a boolean, and some cells missing."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Köln", "Wien"], N)
    size, rooms, old = rng.normal(80, 20, N).round(2), rng.integers(1, 6, N), rng.choice([True, False], N)
    price = 3 * size + 20 * rooms + 50 * (city == "Wien") - 30 * old + rng.normal(0, 5, N)
    table = pandas.DataFrame({"city": city, "size": size, "rooms": rooms, "old": old, "price": price.round(1)})
    table.loc[[3, 11], "size"] = np.nan
    table.loc[7, "city"] = None
    return table


@pytest.fixture
def ellzero(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(line, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(shlex.split(line))
        return code, *capsys.readouterr()

    return call


def expected(table):
    """X as scikit-learn and pandas make it."""
    dummies = pandas.get_dummies(table["city"].fillna("(missing)"), prefix="city").astype(float)
    X = pandas.concat([dummies, table[["size", "rooms"]], table["old"].rename("old_True").astype(float)], axis=1)
    return X.fillna({"size": table["size"].mean()})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t.csv", {}),
        ("t.csv", {"sep": ";", "decimal": ","}),
        ("t.tsv", {"sep": "\t"}),
        ("t.txt", {"sep": "|", "decimal": ","}),
        ("t.csv.gz", {"sep": ";"}),
    ],
)
def test_separators_and_decimal_signs_are_recognised(tmp_path, name, options):
    table = frame()
    table.to_csv(tmp_path / name, index=False, **options)
    X, y, names = ez.datasets.read_table(tmp_path / name, "price", text="onehot", missing="mean")
    want = expected(table)
    assert names == list(want)
    np.testing.assert_allclose(X, want.to_numpy(), rtol=1e-12)
    np.testing.assert_array_equal(y, table["price"])


@pytest.mark.parametrize(("suffix", "needs"), [("parquet", "pyarrow"), ("xlsx", "openpyxl")])
def test_files_of_pandas(tmp_path, suffix, needs, monkeypatch):
    table, path = frame(), tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    else:
        pytest.importorskip("openpyxl", reason="Excel needs openpyxl")
    (table.to_parquet if suffix == "parquet" else table.to_excel)(path, index=False)
    X, _, names = ez.datasets.read_table(path, "price", text="onehot", missing="mean")
    assert names == list(expected(table))
    np.testing.assert_allclose(X, expected(table).to_numpy())
    monkeypatch.setitem(sys.modules, needs, None)
    with pytest.raises(ImportError, match=f"need pandas and {needs}: pip install"):
        ez.datasets.read_table(path, "price")


def test_rows_that_lack_a_value_are_dropped_on_request(tmp_path):
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    X, y, names = ez.datasets.read_table(tmp_path / "t.csv", "price", text="onehot", missing="drop")
    assert X.shape == (N - 3, 6)
    assert "city_(missing)" not in names
    np.testing.assert_array_equal(y, table.dropna()["price"])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "a;y\n1,5;2\n2.5;3\n",
            {},
            "line 3, column 'a': '2.5' has another decimal sign than ',', and line 2 has '1,5'",
        ),
        ("a;y\n1,5;2\n1.234;3\n", {}, "'1.234' has another decimal sign"),
        ("a;y\n1.5;2\n2;3\n", {"decimal": ","}, "'1.5' has another decimal sign than ','"),
        ("a,y\n1,2\n", {"decimal": ","}, "cells are separated by commas"),
        ("a,y\n1,2\n", {"decimal": "x"}, "decimal must be '.' or ','"),
        ("a,y\n1,2\n", {"separator": ";;"}, "separator must be one character"),
        ("a,y\n1,2\n", {"text": "encode"}, "text must be one of 'refuse', 'onehot', 'drop', got 'encode'"),
        ("a,y\n1,2\n", {"missing": "zero"}, "missing must be one of 'refuse', 'drop', 'mean', 'median', got 'zero'"),
        ("a,y\n1,2\n", {"ignore": ["b"]}, "has no column 'b'"),
        ("a,y\n1,2\n", {"ignore": ["a"]}, "'y' is the only column"),
        ("a,y\nu,2\n", {"text": "drop"}, "no column of numbers is left"),
        (
            "a,b,y\nu,1,2\n",
            {},
            "line 2, column 'a': 'u' is not a number; write it like 1234.5, or have columns of text",
        ),
        ("a,b,y\n,1,2\n", {}, "line 2, column 'a': missing value; fill it in"),
        ("a,b,y\nNA,1,2\n?,1,2\n", {"missing": "mean"}, "column 'a' is missing in every row"),
        ("a,b,y\n1,,2\n,1,2\n", {"missing": "drop"}, "every row lacks a value"),
        ("a,y\n1,x\n", {}, "line 2, column 'y': 'x' is not a number"),
        ("a,a_u,y\nu,1,2\nv,2,1\nw,2,3\n", {"text": "onehot"}, "two columns would be called 'a_u'"),
        ("a,y\ninf,1\n", {}, "'inf' is not finite"),
        (
            "a,b,y\n" + "".join(f"u{i},{i},{i}\n" for i in range(50)),
            {"text": "onehot"},
            "column 'a' has 50 different texts in 50 rows",
        ),
    ],
)
def test_what_cannot_be_read_is_located(tmp_path, text, options, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match="t.csv|must be|two columns") as caught:
        ez.datasets.read_table(tmp_path / "t.csv", "y", **options)
    assert message in str(caught.value)


def test_thousands_are_read_where_the_decimal_sign_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("a;y\n1.234;1\n1.234.567,5;2\n-0,25;3\n")
    X, _, _ = ez.datasets.read_table(tmp_path / "t.csv", "y", decimal=",")
    assert X.ravel().tolist() == [1234.0, 1234567.5, -0.25]


@pytest.mark.parametrize(("first", "left_out"), [("", True), ("id", True), ("Unnamed: 0", True), ("year", False)])
def test_a_column_that_numbers_the_rows_is_no_feature(tmp_path, first, left_out):
    rows = "".join(f"{i},{i * i},{i}\n" for i in range(1, 6))
    (tmp_path / "t.csv").write_text(f"{first},a,y\n{rows}")
    names = ez.datasets.read_table(tmp_path / "t.csv", "y")[2]
    assert names == (["a"] if left_out else [first, "a"])
    (tmp_path / "t.csv").write_text(f"{first or 'id'},a,y\n3,1,1\n1,2,2\n3,5,3\n")  # which numbers nothing
    assert len(ez.datasets.read_table(tmp_path / "t.csv", "y")[2]) == 2


def test_a_text_that_looks_like_a_number_at_first_is_read_as_it_stands_there(tmp_path):
    (tmp_path / "t.csv").write_text("code,y\n01,1\n1,2\nA,3\n01,4\n")
    _, _, names = ez.datasets.read_table(tmp_path / "t.csv", "y", text="onehot")
    assert names == ["code_01", "code_1", "code_A"]


def test_fit_and_predict_by_pipe_and_file_are_the_estimator(ellzero, tmp_path):
    table = frame()
    table.to_csv("t.csv", sep=";", decimal=",")  # with an index
    fit = "--target price --k 4 --text onehot --missing mean --bound rooms=+ --bound old_True=,-5 --out m.json"
    code, out, err = ellzero(f"fit - {fit}", stdin=(tmp_path / "t.csv").read_bytes())
    assert (code, err) == (0, "")
    assert "column '' names the rows and is left out" in out
    assert "2 missing numbers are filled in by the mean" in out
    X = expected(table)
    model = ez.SparseRegressor(4, constraint={"rooms": "+", "old_True": (None, -5)}).fit(X, table["price"])
    code, out, err = ellzero("predict m.json t.csv")
    assert code == 0
    said = pandas.read_csv(io.StringIO(out))
    np.testing.assert_allclose(said["predicted price"], model.predict(X), rtol=1e-8)
    assert said.iloc[:, 0].tolist() == list(range(N))
    assert f"R² {model.score(X, table['price']):.4g} on 60 rows" in err
    saved = json.loads((tmp_path / "m.json").read_text())
    assert saved["preparation"]["columns"] == ["city", "size", "rooms", "old"]
    code, out, _ = ellzero("predict m.json t.csv --json")
    np.testing.assert_allclose(json.loads(out)["predictions"]["predicted price"], model.predict(X), rtol=1e-8)


@pytest.mark.parametrize(("loss", "labels"), [("logistic", 2), ("logistic", 3), ("squared_hinge", 2), ("poisson", 0)])
def test_predictions_of_other_losses(ellzero, tmp_path, loss, labels):
    X = RNG.standard_normal((N, 4))
    z = X[:, 0] + 2 * X[:, 1] + 0.1 * RNG.standard_normal(N)
    y = (
        np.array(["lo", "mid", "hi"])[np.digitize(z, [0] if labels == 2 else [-1, 1])]
        if labels
        else RNG.poisson(np.exp(z))
    )
    pandas.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv("t.csv", index=False)
    assert ellzero(f"fit t.csv --target y --loss {loss} --k 2 --ridge 0.01 --out m.json --report r.html")[0] == 0
    code, out, err = ellzero("predict m.json t.csv")
    assert code == 0, err
    said = pandas.read_csv(io.StringIO(out))
    if labels:
        model = ez.SparseClassifier(2, loss=loss, ridge=0.01).fit(X, y)
        assert said["predicted"].tolist() == model.predict(X).tolist()
        assert f"accuracy {model.score(X, y):.4g}" in err
        if loss == "logistic":
            shares = said[[f"probability of {label}" for label in model.classes_]]
            np.testing.assert_allclose(shares, model.predict_proba(X), atol=1e-7)
    else:
        model = ez.SparseRegressor(2, loss=loss, ridge=0.01).fit(X, y)
        np.testing.assert_allclose(said["predicted y"], model.predict(X), rtol=1e-6)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "How well it fits" in page
    assert ("what the model says they are" if labels else "deviance explained") in page


def test_predict_refuses_what_it_was_not_fitted_on(ellzero, tmp_path):
    table = frame()
    table.to_csv("t.csv", index=False)
    assert ellzero("fit t.csv --target price --k 6 --text onehot --missing median --out m.json")[0] == 0
    other = table.assign(city="Rom")
    other.to_csv("o.csv", index=False)
    code, _, err = ellzero("predict m.json o.csv")
    assert code == 3
    assert "o.csv, line 2, column 'city': 'Rom' was not in the data of the fit" in err
    assert ellzero("predict m.json o.csv --unknown zero")[0] == 0
    table.drop(columns=["size", "price"]).to_csv("o.csv", index=False)
    code, _, err = ellzero("predict m.json o.csv")
    assert (code, "no column 'size'" in err) == (3, True)
    (tmp_path / "no.json").write_text("{}")
    code, _, err = ellzero("predict no.json t.csv")
    assert (code, "it must be what 'ellzero fit --out model.json' wrote" in err) == (3, True)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--bound rooms", "'rooms' is no bound; write age=0,3"),
        ("--bound rooms=1", "is no bound"),
        ("--bound rooms=2,1", "must leave something between its bounds"),
        ("--bound nothing=+", "--bound nothing: t.csv has no such column"),
        ("--bound rooms=0,1 --bound rooms=0,", "'--bound' was given twice"),
    ],
)
def test_bounds_are_refused_by_name(ellzero, option, message):
    frame()[["size", "rooms", "price"]].dropna().to_csv("t.csv", index=False)
    code, _, err = ellzero(f"fit t.csv --target price --k 1 {option}")
    assert code in (2, 3)
    assert message in err


def test_bounds_proofs_and_intercepts_are_told_in_words(ellzero):
    frame()[["size", "rooms", "price"]].dropna().assign(double=lambda t: 2 * t["rooms"]).to_csv("t.csv", index=False)
    code, out, _ = ellzero("fit t.csv --target price --k 2 --bound size=0,9 --bound rooms=+ --certify 1")
    assert code == 0
    assert "0 ≤ size ≤ 9, 0 ≤ rooms, satisfied exactly" in out
    assert "to prove more" in out
    frame()[["size", "rooms", "old", "price"]].assign(price=5).to_csv("t.csv", index=False)
    assert "intercept   5 " in ellzero("fit t.csv --target price --k 1 --text onehot --missing drop")[1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m["weights"][0].update(name="other"), "a feature that is not there"),
        (lambda m: m["weights"][0].update(weight=float("nan")), "no number"),
        (lambda m: m["weights"][0].update(position=99), "an output that is not there"),
        (lambda m: m.update(intercept=None), "no intercept"),
        (lambda m: m.update(intercept=[1.0, 2.0]), "too many"),
        (lambda m: m["preparation"]["filled"].popitem(), "nothing to fill in"),
        (lambda m: m.update(preparation={"columns": 3}), "no columns"),
    ],
)
def test_models_that_were_damaged_are_refused(ellzero, tmp_path, change, why):
    frame().to_csv("t.csv", index=False)
    assert ellzero("fit t.csv --target price --k 6 --text onehot --missing median --out m.json")[0] == 0
    model = json.loads((tmp_path / "m.json").read_text())
    change(model)
    (tmp_path / "m.json").write_text(json.dumps(model))
    code, _, err = ellzero("predict m.json t.csv")
    assert (code, "m.json: no model could be read; it must be what" in err) == (3, True), why


def test_predictions_of_one_row_in_a_new_folder(ellzero, tmp_path):
    frame().to_csv("t.csv", index=False)
    frame().head(1).to_csv("one.csv", index=False)
    assert ellzero("fit t.csv --target price --k 3 --text onehot --missing median --out m.json")[0] == 0
    code, _, err = ellzero("predict m.json one.csv --out new/folder/p.csv")
    assert (code, err) == (0, "")
    assert len((tmp_path / "new" / "folder" / "p.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit t.csv --target price --k 2", "(--text onehot) or left out (--ignore)"),
        ("fit t.csv --target price --k 2 --text onehot", "(--missing drop, mean or median)"),
        (
            "fit t.csv --target price --k 2 --text onehot --missing mean",
            "'key' has 60 different texts in 60 rows, too many",
        ),
        (
            "fit t.csv --target city --k 2 --text drop --missing drop",
            "is not a number; write it like 1234.5, or ask for classes (--loss logistic)",
        ),
        ("path one.csv --target price --ks 1 --validation 0.2", "--validation leaves rows out, and there is one alone"),
        ("path rare.csv --target city --loss logistic --ks 1 --validation 0.2", "there is one of class 'Rom' alone"),
    ],
)
def test_remedies_are_options(ellzero, line, message):
    table = frame()
    table.assign(key=[f"k{i}" for i in range(N)]).to_csv("t.csv", index=False)
    table[["rooms", "price"]].head(1).to_csv("one.csv", index=False)
    table[["rooms"]].assign(city=["Rom"] + ["Bern"] * (N - 1)).to_csv("rare.csv", index=False)
    code, _, err = ellzero(line)
    assert code in (2, 3)
    assert message in err


def test_every_class_gives_its_share_of_the_rows_held_out(ellzero):
    frame()[["rooms", "size"]].dropna().assign(
        city=lambda t: ["Rom", "Bern", *["Wien"] * (len(t) - 4), "Rom", "Bern"]
    ).to_csv("t.csv", index=False)
    for seed in range(3):
        line = f"path t.csv --target city --loss logistic --ks 1 --validation 0.2 --seed {seed} --json"
        assert json.loads(ellzero(line)[1])["path_fitted_on"] == "45 of 58 rows"
