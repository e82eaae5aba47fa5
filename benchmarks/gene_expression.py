"""Real data with far more features than rows, k chosen by cross-validation: `python -m benchmarks gene-expression`.

Golub's leukemia data (72 x 7129, two classes) and riboflavin production (71 x 4088, a regression): ellzero's
SparseClassifierCV and SparseRegressorCV beside Lasso, OMP and abess. Every method has the same outer folds, the same
standardisation (fitted on the training rows) and a process of its own, and chooses its parameters by 5-fold
cross-validation inside the training rows. Writes GENE_EXPRESSION.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np

from .peers.environments import ROOT, environment, python_for

DATA = ROOT.parent / "shared" / "data"
TARGET = ROOT / "benchmarks" / "GENE_EXPRESSION.md"
STORE = ROOT / "out" / "gene_expression.json"
FILES = {"golub": "gene_expression/golub.npz", "riboflavin": "riboflavin/riboflavin.npz"}
FOLDS = 5


# ------------------------------------------------------------------------------------------------- methods


def ellzero(**options):
    """Ours: k and the ridge by cross-validation."""

    def make(classify):
        import ellzero as ez

        return (ez.SparseClassifierCV if classify else ez.SparseRegressorCV)(**options)

    return make


def lasso(classify):
    """l1-penalised, the penalty by cross-validation."""
    from sklearn.linear_model import LassoCV, LogisticRegressionCV

    if not classify:
        return LassoCV(cv=FOLDS, max_iter=10_000)
    return LogisticRegressionCV(
        l1_ratios=(1.0,), solver="liblinear", Cs=20, cv=FOLDS, scoring="neg_log_loss", use_legacy_attributes=False
    )


def omp(classify):
    """Orthogonal matching pursuit; of classes, on labels ±1."""
    from sklearn.linear_model import OrthogonalMatchingPursuitCV

    return OrthogonalMatchingPursuitCV(cv=FOLDS)


def abess(**options):
    """Adaptive best-subset selection, the support size by cross-validation."""

    def make(classify):
        import abess as package

        kind = package.LogisticRegression if classify else package.LinearRegression
        return kind(cv=FOLDS, **options)

    return make


class Abess:
    """What `python_for` needs to know of the peer."""

    package, requires, python = "abess", ("abess",), None


METHODS = {
    "ellzero": (ellzero(), "the default: k and the ridge by the mean held-out loss", None),
    "ellzero, 1se": (ellzero(rule="1se"), 'rule="1se": the smallest k within one standard error of the best', None),
    "ellzero, one ridge": (ellzero(ridge=0.01), "ridge=0.01 fixed, only k is chosen", None),
    "Lasso": (lasso, "LassoCV; LogisticRegressionCV with an l1 penalty, 20 of them, by the held-out loss", None),
    "OMP": (omp, "OrthogonalMatchingPursuitCV; for the classes on labels ±1, so without probabilities", None),
    "abess": (abess(), "cv=5, its own range of support sizes", Abess),
    "abess, ridge": (abess(alpha=0.1), "the same with its l2 penalty alpha=0.1, which it does not choose", Abess),
}


# ------------------------------------------------------------------------------------------------- measuring


def main(options=()):
    """Measure every method on both data sets, print, and write GENE_EXPRESSION.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gene-expression", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help=f"times the {FOLDS} outer folds are drawn (5)")
    parser.add_argument("--methods", nargs="+", help="names; the others keep their last measurements")
    parser.add_argument("--report", action="store_true", help="write the file from the last measurements")
    args = parser.parse_args(list(options))
    if not all((DATA / name).exists() for name in FILES.values()):
        print(f"skipped: the data are not in {DATA}")
        return
    stored = json.loads(STORE.read_text()) if STORE.exists() and (args.report or args.methods) else {"rows": []}
    if not args.report:
        chosen = [name for name in METHODS if args.methods is None or name in args.methods]
        stored["about"] = {"load": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d"), "repeats": args.repeats}
        for dataset in FILES:
            for name in chosen:
                row = measure(name, dataset, args.repeats)
                stored["rows"] = [r for r in stored["rows"] if (r["method"], r["data"]) != (name, dataset)] + [row]
                print(f"{dataset:<11} {name:<20} {describe(row)}", flush=True)
                STORE.parent.mkdir(exist_ok=True)
                STORE.write_text(json.dumps(stored))
    text = report(stored)
    TARGET.write_text(text, encoding="utf-8")
    print(text)


def measure(name, dataset, repeats):
    """One method on one data set, in its own process."""
    peer = METHODS[name][2]
    python, broken = (sys.executable, None) if peer is None else python_for(peer)
    row = {"method": name, "data": dataset}
    if broken is not None:
        return row | {"note": f"did not install: {broken}"}
    command = [python, "-m", "benchmarks.gene_expression", name, dataset, str(repeats)]
    threads = {name: "1" for name in environment() if name.endswith("_NUM_THREADS")}
    done = subprocess.run(command, env=environment() | threads, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return row | {"note": f"failed: {lines[-1][:160] if lines else done.returncode}"}
    return row | json.loads(done.stdout.splitlines()[-1])


def work(name, dataset, repeats):
    """In the process: every outer fold, one line of JSON."""
    from sklearn.base import clone
    from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    warnings.simplefilter("ignore")  # about convergence, of several packages
    classify = dataset == "golub"
    data = np.load(DATA / FILES[dataset], allow_pickle=False)
    X, y = data["X"].astype(float), data["y"].astype(int if classify else float)
    splitter = (RepeatedStratifiedKFold if classify else RepeatedKFold)(
        n_splits=FOLDS, n_repeats=repeats, random_state=0
    )
    on_signs = classify and METHODS[name][0] is omp
    model = make_pipeline(StandardScaler(), METHODS[name][0](classify))
    predictions = np.full((repeats, y.size), np.nan)  # of a quantity, a class, or a sign
    probabilities = predictions.copy()  # of class 1
    sizes, seconds = [], []
    for number, (train, test) in enumerate(splitter.split(X, y)):
        fitted, started = clone(model), time.process_time()
        fitted.fit(X[train], 2.0 * y[train] - 1 if on_signs else y[train])
        seconds.append(time.process_time() - started)
        sizes.append(int(np.count_nonzero(fitted[-1].coef_)))
        predictions[number // FOLDS, test] = fitted.predict(X[test])
        if classify and not on_signs:
            probabilities[number // FOLDS, test] = fitted.predict_proba(X[test])[:, 1]
    result = score(predictions, probabilities, y, classify, on_signs)
    result |= {"sizes": sizes, "seconds": float(np.median(seconds)), "slowest": max(seconds)}
    print(json.dumps(result))


def score(predictions, probabilities, y, classify, on_signs):
    """A number for each repeat: every row was predicted once in it."""
    if not classify:
        return {"error": np.mean((predictions - y) ** 2, axis=1).tolist(), "variance": float(np.var(y))}
    wrong = (predictions > (0.0 if on_signs else 0.5)) != (y == 1)  # classes are 0 and 1
    result = {"error": wrong.mean(axis=1).tolist()}
    if not on_signs:
        p = np.clip(np.where(y == 1, probabilities, 1 - probabilities), 1e-12, 1.0)
        result["loss"] = np.mean(-np.log(p), axis=1).tolist()
    return result


# ------------------------------------------------------------------------------------------------- reporting


def spread(values):
    """Mean and standard deviation over the repeats."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def describe(row):
    if "error" not in row:
        return row["note"]
    return "error {:.4f} ± {:.4f}, {:.0f} features, {:.2f} s".format(
        *spread(row["error"]), np.median(row["sizes"]), row["seconds"]
    )


def report(stored):
    """The whole file."""
    about, rows = stored["about"], stored["rows"]
    place = {name: i for i, name in enumerate(METHODS)}
    rows = sorted((r for r in rows if r["method"] in place), key=lambda r: place[r["method"]])
    lines = [
        "# Gene expression: k by cross-validation",
        "",
        f"`python -m benchmarks gene-expression --repeats {about['repeats']}`, {about['date']}; {FOLDS}-fold",
        f"cross-validation, drawn {about['repeats']} times, the same folds for every method. Columns are standardised",
        f"on the training rows, and every method chooses by {FOLDS}-fold cross-validation inside them. ± is the",
        "standard deviation between the draws. Seconds: the median processor time of one fit, the choice included,",
        f"with one thread for everyone (load average {about['load']:.1f} on {os.cpu_count()} cores at the start).",
        "",
    ]
    for dataset, title, names in (
        ("golub", "Golub: acute leukemia, 72 patients x 7129 genes, two classes", ("misread", "log-loss")),
        ("riboflavin", "Riboflavin: production rate, 71 samples x 4088 genes", ("mean squared error", "R²")),
    ):
        mine = [row for row in rows if row["data"] == dataset]
        lines += [
            f"## {title}",
            "",
            f"| method | {names[0]} | {names[1]} | nonzeros | seconds |",
            "|---|---:|---:|---:|---:|",
        ]
        lines += [line(row) for row in mine]
        lines += ["", in_words(mine, dataset), ""]
    lines += ["## Methods", ""]
    lines += [f"* **{name}**: {text}" for name, (_, text, _) in METHODS.items()]
    return "\n".join(lines) + "\n"


def line(row):
    if "error" not in row:
        return f"| {row['method']} | {row['note']} | | | |"
    mean, deviation = spread(row["error"])
    sizes = f"{np.median(row['sizes']):.0f} ({min(row['sizes'])} to {max(row['sizes'])})"
    if row["data"] == "golub":
        first = f"{mean:.1%} ± {deviation:.1%}"
        second = "{:.3f} ± {:.3f}".format(*spread(row["loss"])) if "loss" in row else "–"
        second = "probabilities are NaN" if "nan" in second else second
    else:
        first = f"{mean:.3f} ± {deviation:.3f}"
        second = f"{1 - mean / row['variance']:.2f}"
    return f"| {row['method']} | {first} | {second} | {sizes} | {row['seconds']:.2f} |"


def in_words(rows, dataset):
    """Who is best, and where ellzero's default stands."""
    known = {row["method"]: spread(row["error"]) for row in rows if "error" in row}
    if "ellzero" not in known or len(known) < 2:
        return ""
    ours, best = known["ellzero"], min(known, key=lambda name: known[name][0])
    number = (lambda v: f"{v:.1%}") if dataset == "golub" else (lambda v: f"{v:.3f}")
    worse = [name for name, (mean, _) in known.items() if mean < ours[0]]
    text = f"Smallest mean error: {best}, {number(known[best][0])}. The default of ellzero has {number(ours[0])}"
    ahead = [name for name in worse if not name.startswith("ellzero")]
    text += (
        f": worse than {' and '.join(ahead)}, better than the rest of the peers." if ahead else ": no peer has less."
    )
    losses = {row["method"]: spread(row["loss"])[0] for row in rows if "loss" in row}
    losses = {name: loss for name, loss in losses.items() if np.isfinite(loss)}
    if losses:
        best = min(losses, key=losses.get)
        text += (
            f" Smallest mean log-loss: {best}, {losses[best]:.3f}; the default of ellzero has {losses['ellzero']:.3f}."
        )
    return text


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
