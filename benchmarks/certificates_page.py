"""CERTIFICATES.md and its picture, from the measurements of `certificates.py`."""

import math
import platform

from .peers.environments import ROOT

PAGE = ROOT / "benchmarks" / "CERTIFICATES.md"
FIGURE = ROOT / "benchmarks" / "figures" / "certificates.png"
SOLVERS = ["ellzero", "SCIP", "okridge", "l0bnb"]
TIE = 1e-5  # relative differences of values below it are tolerances

SETTINGS = {
    "ellzero": """`minimize(LeastSquares(X, y, ridge=ridge), k, constraint, method="exact", time_limit=t)`, no other
option, a run for each limit; the time that "auto" takes for the first answer is counted.""",
    "SCIP": """through PySCIPOpt. Perspective model: the rows of a factor of Q - δI (d rows at most, however large n
is), δ = ridge + 0.999·λ_min of the rest, `r_j² <= t_j` row by row, `w_i² <= s_i z_i`, `|w_i| <= M z_i`, `Σz <= k`;
M is the given bound or cap, or twice our largest coefficient; scaled so that R(0) = 1000 (its tolerances are absolute);
starts from our answer, with a tangent of every row there and two perspective cuts for every coefficient; the time to
build the model is not counted. On rows 2 and 2b its first linear programmes (500 dense rows) take a minute or more.""",
    "okridge": """`BNBTree(X, y, lambda2=n*ridge/2).solve(k, gap_tol=1e-4)`, with ADMM, and with beams of 10 instead of
50 in its heuristic (tried on rows 1, 3 and 4: the bounds rise sooner, the answers are the same). Where eigenvalues are
tied its tuning calls
`Node.lower_solve`, which this version does not have: it is given `lower_solve_fast`, the method next to it. Its bounds
are minima of whole levels of the tree. It takes no start.""",
    "l0bnb": """solves min n·R/2 + λ₀||w||_0 with |w_i| <= M: `BNBTree(X, y).solve(l0, l2=n*ridge/4, m=M, gap_tol=1e-4)`
from our answer, compiled before the clock starts. λ₀ is the middle of the interval in which our answers for k±3 are no
better than that for k. The gaps here are those of the problem with k: its bound less λ₀k bounds n·R/2 of every w with
at most k nonzeros and |w_i| <= M; *own gap* is that of its own objective, smaller because λ₀||w||_0 is a part of it.
It is given two things that it would have to find: the answer, and the λ₀ that leads to k; *found in* says what λ₀
took us, and is not counted.""",
}


def write(store, instances):
    """The page and the picture."""
    about = store["about"]
    known = [(i, store["instances"][i.name]) for i in instances if i.name in store["instances"]]
    limits = about["limits"]
    draw(known)
    parts = [
        head(about),
        "## In short\n\n" + summary(known, limits),
        "![gap against seconds](figures/certificates.png)",
        "## The same optimum\n\n" + agreement(known),
        "## Index tracking: what limits the bound\n\n"
        + "\n\n".join(limiting(i, m, limits) for i, m in known if i.market),
        "## Every measurement\n\n" + LEGEND,
        *(f"### {i.name}: {i.title}\n\n{table(m['runs'], limits)}" for i, m in known),
        "## Settings\n\n"
        + "\n\n".join(f"**{name}** ({versions(known, name)}): {text}" for name, text in SETTINGS.items()),
    ]
    PAGE.write_text("\n\n".join(part for part in parts if part.strip()) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)}")


def head(about):
    limits = ", ".join(f"{t:g}" for t in about["limits"])
    start, end = about["load"]
    again = f" Measured again later (`--write`): {', '.join(about['again'])}." if about.get("again") else ""
    return f"""# Proved gaps, beside SCIP, okridge and l0bnb

Written by `python -m benchmarks certificates`, {about["date"]}; {about["cores"]} cores, Python
{platform.python_version()}, load average {start:.1f} at the start and {end:.1f} at the end.
The runs took {about["minutes"]:.0f} minutes in all. Seconds are those of **one processor core**, with one thread for
everyone, so that the load hardly matters; on an idle machine they are seconds.{again}

R = (1/n)||Xw-y||² + (ridge/2)||w||², at most k nonzeros. Gap = (the best value that anyone found - the solver's own
lower bound) / the best value, after {limits} s. R >= 0 is known to all: before its first bound, a solver is at 100%."""


LEGEND = """*Value* is R of the solver's answer, recomputed; *proved in* the seconds until its own proof of optimality
(ellzero: 1e-6 of what is explained, okridge and l0bnb: 1e-4, SCIP: its tolerances), the median of three runs where they
take less than two seconds."""


def best_value(runs):
    """The least R of a feasible answer."""
    return min(
        (v for r in runs.values() for v in (r.get("refit"), r.get("R") if feasible(r) else None) if v is not None),
        default=math.nan,
    )


def feasible(r):
    return r.get("violation", 1.0) <= 1e-9 and "refit" in r


def bound_after(r, limit):
    """The lower bound known after so many seconds, of the run that was given that time if there was one."""
    histories = {float(t): h for t, h in r.get("runs", [])}
    history = histories.get(limit, r.get("history", []))
    late = 1.05 * limit + 0.1  # it is told a moment after the clock is looked at
    return max([0.0, *(bound for seconds, _, bound in history if seconds <= late)])


def proved_in(r, best=math.inf):
    """Seconds of the proof; a claim that a known value contradicts is none."""
    return r["seconds"] if r.get("optimal") and r.get("refit", math.inf) <= best * (1 + 1e-4) else math.inf


def gap_after(r, limit, best):
    """(gap, seconds of the proof if there is one by then)."""
    if proved_in(r, best) <= 1.05 * limit + 0.1:
        return 0.0, proved_in(r, best)
    return max(0.0, 1 - bound_after(r, limit) / best), None


def percent(gap):
    if gap >= 0.995:
        return "100%"
    return f"{100 * gap:.3g}%" if gap >= 1e-5 else "<0.001%"


def cell(r, limit, best):
    gap, seconds = gap_after(r, limit, best)
    return f"proved, {seconds:.2g} s" if seconds is not None else percent(gap)


def summary(known, limits):
    """A row for each instance: everyone's gaps, and who is ahead."""
    lines = ["| | " + " | ".join(SOLVERS) + " | |", "|---|" + "---|" * (len(SOLVERS) + 1)]
    for instance, measured in known:
        runs, best = measured["runs"], best_value(measured["runs"])
        cells = [gaps(runs[s], limits, best) if s in runs else "" for s in SOLVERS]
        lines.append(
            f"| **{instance.name}**: {escaped(instance.title)} | "
            + " | ".join(cells)
            + f" | {verdict(runs, limits, best)} |"
        )
    after = ", ".join(f"{t:g}" for t in limits)
    told = f"Gaps after {after} s, or the seconds until the proof; times within a factor of 1.5 are level."
    return "\n".join([told, "", *lines])


def escaped(text):
    return text.replace("|", "\\|")


def answered(r):
    return bool(r.get("history")) or "support" in r


def gaps(r, limits, best):
    if not answered(r):
        return r["note"]
    cells = []
    for limit in limits:
        cells.append(cell(r, limit, best))
        if cells[-1].startswith("proved"):
            break
    return ", ".join(cells)


def verdict(runs, limits, best):
    """Where ours is ahead of every peer, and by how much it loses where it is not."""
    ours, peers = runs.get("ellzero"), {s: r for s, r in runs.items() if s != "ellzero" and answered(r)}
    if not ours or not peers:
        return ""
    lost, tied = [], True
    for limit in limits:
        mine, seconds = gap_after(ours, limit, best)
        for name, r in peers.items():
            theirs, their_seconds = gap_after(r, limit, best)
            if mine > theirs + TIE:
                lost.append(f"behind {name} by {100 * (mine - theirs):.2g} points after {limit:g} s")
            elif seconds is not None and their_seconds is not None and 1.5 * their_seconds < seconds:
                lost.append(f"{name} proves it {seconds / their_seconds:.2g} times sooner")
            tied &= abs(mine - theirs) <= TIE and seconds == their_seconds
    if lost:
        return "; ".join(dict.fromkeys(lost))
    sooner = min(peers, key=lambda s: proved_in(peers[s]))
    if proved_in(peers[sooner]) < 1.5 * proved_in(ours):
        return f"level with {sooner}, which takes {proved_in(peers[sooner]) / proved_in(ours):.2g} of our time"
    if math.isfinite(proved_in(peers[sooner])):
        return f"ahead; proved {proved_in(peers[sooner]) / proved_in(ours):.2g} times sooner than {sooner}"
    if tied:
        return "no one proves anything"
    if math.isfinite(proved_in(ours)):
        return "ahead; no peer proves it"
    mine = gap_after(ours, limits[-1], best)[0]
    closest = min(peers, key=lambda s: gap_after(peers[s], limits[-1], best)[0])
    theirs = gap_after(peers[closest], limits[-1], best)[0]
    return f"ahead; next is {closest}, {100 * (theirs - mine):.2g} points behind after {limits[-1]:g} s"


def table(runs, limits):
    best = best_value(runs)
    head = ["solver", *(f"gap, {t:g} s" for t in limits), "value", "its bound", "proved in", "nodes", "note"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for solver in (s for s in SOLVERS if s in runs):
        r = runs[solver]
        notes = [r["note"]] if r.get("note") else []
        if not answered(r):
            lines.append(f"| {solver} |" + " |" * (len(head) - 2) + f" {r['note']} |")
            continue
        bound = max([0.0, *(h[2] for h in r["history"])])
        if "support" in r and "refit" not in r:
            notes.append(f"its answer has {len(r['support'])} nonzeros")
        if r.get("violation", 0) > 1e-9:
            notes.append(
                f"its answer violates the constraint by {r['violation']:.1g}; with that mended R = {r['refit']:.8g}"
            )
        if bound > best * (1 + 1e-4):
            notes.append("ITS BOUND IS ABOVE A KNOWN VALUE")
        if r.get("optimal") and math.isinf(proved_in(r, best)):
            notes.append("CALLS ITS ANSWER OPTIMAL, BUT A BETTER ONE IS KNOWN")
        if "own gap" in r:
            notes.append(f"own gap {percent(max(0.0, r['own gap']))}")
        if r.get("seconds", 0) > 1.1 * r["limit"]:
            notes.append(f"stopped after {r['seconds']:.3g} s")
        cells = [percent(gap_after(r, t, best)[0]) if gap_after(r, t, best)[1] is None else "0" for t in limits]
        cells += [f"{r['R']:.8g}" if "R" in r else "", f"{bound:.8g}"]
        cells += [
            f"{r['seconds']:.2f} s" if r.get("optimal") else "",
            str(r.get("nodes", "")),
            escaped("; ".join(notes)),
        ]
        lines.append("| " + " | ".join([f"**{solver}**" if solver == "ellzero" else solver, *cells]) + " |")
    return "\n".join(lines)


def agreement(known):
    """Do all who finished agree?"""
    lines = ["Relative differences to our value, of those who prove optimality within the time:", ""]
    worst = 0.0
    for instance, measured in known:
        runs = measured["runs"]
        done = {s: r for s, r in runs.items() if r.get("optimal") and "refit" in r and s != "ellzero"}
        if not done or "refit" not in runs.get("ellzero", {}):
            continue
        ours = runs["ellzero"]["refit"]
        off = {s: abs(r["refit"] / ours - 1) for s, r in done.items()}
        worst = max(worst, *off.values())
        lines.append(f"- {instance.name}: " + ", ".join(f"{s} {v:.1e}" for s, v in off.items()))
    if len(lines) == 2:
        return "No peer finished."
    word = "All agree" if worst <= TIE else "NOT all agree"
    return "\n".join([*lines, "", f"{word}; values are those of the supports found, refitted."])


def limiting(instance, measured, limits):
    """One market: the gaps, and why they are not smaller."""
    runs, scale = measured["runs"], measured["scales"]
    best, ours = best_value(runs), runs.get("ellzero")
    if not ours or not scale:
        return ""
    told = ", ".join(f"{percent(gap_after(ours, t, best)[0])} after {t:g} s" for t in limits)
    if ours.get("optimal"):
        told = f"proved optimal in {ours['seconds']:.2g} s"
    dense, sectors = percent(1 - scale["dense"] / best), scale["groups"]
    text = (
        f"**{instance.title}** ({scale['n']} days, {scale['d']} stocks, {sectors} sectors): {told}, {ours['nodes']} "
        f"nodes. Without k the best value is {scale['dense']:.4g}, with {scale['dense nonzeros']} stocks: a bound that "
        f"forgets k stays at a gap of {dense}. "
    )
    if scale["flattest"] > 1e-9 * scale["average"]:
        text += (
            f"The flattest direction of R has {scale['flattest'] / scale['average']:.2g} of the average curvature, "
            "which is what can be split off and held against k; the rest is branching."
        )
    else:
        text += (
            f"There are more stocks than days: R is flat in {scale['d'] - scale['n']} directions, and no diagonal can "
            "be split off. What is left is the convex hull of the sparse members of Γ. Each sector is an l1 ball, "
            f"whose corners have one nonzero, and k = {instance.k} >= {sectors}: that hull is Γ itself, and k has "
            "no effect on the relaxation before many stocks are excluded."
        )
    return text + (f" In its own words: {ours['how']}; {ours['advice']}." if ours.get("advice") else "")


def versions(known, solver):
    told = {
        r["version"] + (f", SCIP {r['SCIP']}" if "SCIP" in r else "")
        for _, m in known
        if "version" in (r := m["runs"].get(solver, {}))
    }
    return "; ".join(sorted(told)) or "not measured"


def draw(known):
    """Gap against seconds, a panel for each instance."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"ellzero": "#c8102e", "SCIP": "#1f6fb4", "okridge": "#2a9d5c", "l0bnb": "#b8860b"}
    floor, columns = 1e-5, 3
    rows = math.ceil(len(known) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(11, 2.7 * rows + 0.6), sharex=True, sharey=True, squeeze=False)
    for axis in axes.ravel()[len(known) :]:
        axis.set_visible(False)
    for axis, (instance, measured) in zip(axes.ravel(), known, strict=False):
        best = best_value(measured["runs"])
        for solver in reversed(SOLVERS):
            r = measured["runs"].get(solver, {})
            if not r.get("history"):
                continue
            times, gaps = [0.005], [1.0]
            for seconds, _, bound in r["history"]:
                times.append(max(seconds, 0.005))
                gaps.append(min(gaps[-1], max(1 - bound / best, floor)))
            style = {"color": colours[solver], "linewidth": 2.4 if solver == "ellzero" else 1.4, "label": solver}
            if r.get("optimal"):
                gaps[-1] = floor
                axis.plot(times[-1], floor, "o", color=colours[solver], markersize=6, clip_on=False, zorder=5)
            else:
                times, gaps = [*times, max(r["limit"], times[-1])], [*gaps, gaps[-1]]
            axis.step(times, gaps, where="post", **style)
        axis.set(xscale="log", yscale="log", xlim=(0.008, 80), ylim=(floor, 1.3))
        title = (
            f"{instance.name}: {instance.title}".replace(", k=", "\nk=", 1)
            if instance.market
            else f"{instance.name}: {instance.title}".replace(", AR", "\nAR")
        )
        axis.set_title(title, fontsize=8.5, loc="left")
        axis.grid(True, which="major", color="#dddddd", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_yticks([1, 0.1, 0.01, 1e-3, 1e-4, 1e-5], ["100%", "10%", "1%", "0.1%", "0.01%", "proved"])
        axis.set_xticks([0.01, 0.1, 1, 10, 60], ["0.01", "0.1", "1", "10", "60"])
        axis.minorticks_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("gap")
    for axis in axes[-1]:
        axis.set_xlabel("processor seconds")
    handles = {
        line.get_label(): line for axis in axes.ravel() for line in axis.get_lines() if line.get_label() in SOLVERS
    }
    figure.legend(
        [handles[s] for s in SOLVERS if s in handles],
        [s for s in SOLVERS if s in handles],
        loc="upper center",
        ncols=4,
        frameon=False,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=110)
    plt.close(figure)
