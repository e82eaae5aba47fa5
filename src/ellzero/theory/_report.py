"""A guarantee in words: a short report for the terminal, a table for notebooks."""

from __future__ import annotations

import html
import textwrap
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._asked import Asked
    from .guarantees import Guarantee
    from .parameters import Prescription

_WIDTH = 110
_VERDICTS: dict[bool | None, str] = {True: "holds", False: "FAILS", None: "open"}
_FORMS = {"paper": "the paper's", "sharp": "sharper", "widest": "widest", "exchanges": "after exchanges"}


def promise(asked: Asked, p: Prescription, n_iter: int | None, left: float) -> str:
    """The bound as a sentence."""
    steps = "T" if n_iter is None else f"{n_iter}"
    who = f"every w̄ {'in Γ ' if asked.constrained else ''}with at most {asked.words_of_w_bar}"
    if p.theorem == "IHT":
        return f"After {steps} iterations R(w_t) <= R(w̄) + {left:.4g}, for {who}."
    limit = "R(w̄)"
    if asked.constrained and asked.shifted:
        limit = f"R(w̄) + {p.rho / (1 - p.rho):.4g}·(R(w̄) - {asked.lower_bound:.6g})".replace("- -", "+ ")
    elif asked.constrained:
        limit = f"{p.factor:.4g}·R(w̄)"
    best = "The best of the first" if p.oracle == "full" else "In expectation, the best of the first"
    return f"{best} {steps} iterates has R(w_t) <= {limit} + {left:.4g}, for {who}."


def verdict(g: Guarantee) -> str:
    """Does it hold, and if not, why."""
    if g.holds:
        return "every premise holds" + ("" if g.proved else "; the theorem is as stated in the paper, not proved")
    failed = [premise.name for premise in g.premises if premise.holds is False]
    unsure = [premise.name for premise in g.premises if premise.holds is None]
    why = f"what fails: {', '.join(failed)}" if failed else f"what rests on an estimate: {', '.join(unsure)}"
    if g.form == "exchanges" and not failed and unsure == ["no exchange helps"]:
        return "it holds for an answer that no exchange betters, which the run tells"
    if g.best is None:
        return f"nothing is {'promised' if failed else 'proved'}; {why}"
    return f"only the {_FORMS[g.best.form]} form holds; {why} (in {_FORMS[g.form]} form)"


def _promised(g: Guarantee) -> tuple[str, str]:
    """A title, and the sentence of the best form that holds, else that of the first."""
    return ("promise", g.best.promise) if g.best else ("if met", g.promise)


def rows(g: Guarantee) -> list[tuple[str, list[str]]]:
    """What each form prescribes: a title, and an entry for each form."""
    forms = [g, *g.others]
    table = [
        ("k required", [_number(f.k_required) for f in forms]),
        ("k̄ covered by k", [_number(f.k_bar_max) for f in forms]),
        ("premises", [_held(f) for f in forms]),
        ("ρ", [_number(f.rho) for f in forms]),
        ("factor of R(w̄)", [_number(f.factor) for f in forms]),
        ("bound on R", [_number(f.bound) for f in forms]),
        ("step η", [_number(f.step) for f in forms]),
        ("iterations T", [_number(f.n_iter) for f in forms]),
        ("ω", [_number(f.omega) for f in forms]),
        ("τ", [_number(f.tau) for f in forms]),
        ("μ", [_number(f.mu) for f in forms]),
        ("#HT thresholdings", [_number(f.n_thresholds) for f in forms]),
        ("#IFO gradients", [_number(f.n_gradients or None) for f in forms]),
        ("#IZO directions", [_number(f.n_directions or None) for f in forms]),
        ("function values", [_number(f.n_values or None) for f in forms]),
    ]
    return [(title, entries) for title, entries in table if any(entry != "-" for entry in entries)]


def _held(g: Guarantee) -> str:
    if g.holds:
        return "hold"
    return "do not hold" if any(premise.holds is False for premise in g.premises) else "open"


def title_of(g: Guarantee) -> str:
    """What was asked."""
    return f"{g.theorem}, k = {g.k}, k̄ = {g.k_bar}" + ("" if g.sparsity.plain else f", {g.sparsity.words}")


def as_text(g: Guarantee) -> str:
    """The report."""
    lines = [f"ellzero guarantee: {title_of(g)}"]
    lines += _wrapped("verdict", verdict(g), 2)
    title, sentence = _promised(g)
    if sentence:
        lines += _wrapped(title, sentence, 2)
    lines.append("  premises")
    for premise in g.premises:
        lines += _wrapped(f"{_VERDICTS[premise.holds]}  {premise.name}", premise.text, 4, 28)
        if premise.remedy:
            lines += _wrapped("", f"-> {premise.remedy}", 4, 28)
    table = rows(g)
    width = 2 + max(len(entry) for _, entries in [("", ["the paper's"]), *table] for entry in entries)
    lines.append("  prescribed, by form   " + "".join(f"{_FORMS[form.form]:>{width}}" for form in (g, *g.others)))
    for title, entries in table:
        lines.append(f"    {_padded(title, 20)}" + "".join(f"{entry:>{width}}" for entry in entries))
    for note in g.notes:
        lines += _wrapped("note", note, 2)
    return "\n".join(lines)


def as_html(g: Guarantee) -> str:
    """The report for a notebook."""
    escape = html.escape
    premises = "".join(
        f"<tr><td><b>{_VERDICTS[p.holds]}</b></td><td>{escape(p.name)}</td><td style='text-align:left'>"
        f"{escape(p.text)}{f'<br><i>{escape(p.remedy)}</i>' if p.remedy else ''}</td></tr>"
        for p in g.premises
    )
    head = "".join(f"<th>{escape(_FORMS[form.form])}</th>" for form in (g, *g.others))
    body = "".join(
        f"<tr><td>{escape(title)}</td>" + "".join(f"<td>{escape(entry)}</td>" for entry in entries) + "</tr>"
        for title, entries in rows(g)
    )
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in g.notes)
    title, sentence = _promised(g)
    return (
        f"<div><p><b>{escape(title_of(g))}: {escape(verdict(g))}</b></p>"
        f"<p>{title}: {escape(sentence)}</p><table>{premises}</table>"
        f"<table><tr><th></th>{head}</tr>{body}</table>{notes}</div>"
    )


def _wrapped(title: str, text: str, indent: int, column: int = 9) -> list[str]:
    first = f"{' ' * indent}{_padded(title, column)} "
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=" " * (indent + column + 1))


def _padded(text: str, width: int) -> str:
    """Filled up with blanks; the bar of k̄ takes no room."""
    return text + " " * (width - sum(not unicodedata.combining(character) for character in text))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ") if value < 10**12 else f"{value:.3e}"
    return f"{value:.6g}"
