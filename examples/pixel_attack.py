"""A k-pixel attack on a classifier of handwritten digits that is known only by its answers.

    python examples/pixel_attack.py [--k 3] [--images 20] [--queries 2000] [--seed 0] [--out out/pixel_attack.png]

A small neural network of scikit-learn reads 8 x 8 images of digits. It was trained on spoilt images too, so that
single wrong pixels do not confuse it. We may ask it for the probabilities of an image of ours, nothing else: no
gradient, no weights. How few pixels make it read another digit?

    minimise   log p(true digit) - log p(the likeliest other digit)       at the image x + w, by asking alone
    subject to at most k changed pixels, and every pixel of x + w in [0, 16]

The margin is negative exactly where the network is wrong, and a run stops as soon as it is. After 100 queries in
vain it starts anew, from a random change of k pixels; all queries count. For comparison: nothing but random changes
of k pixels to black or white, with the same number of queries.

Images that stand this attack may fall to another one: it proves nothing about them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import ellzero as ez

WHITE = 16.0  # pixels of this data set run from 0 to 16
SITTING = 100  # queries after which a run starts anew from elsewhere


@dataclass
class Attack:
    """What became of one image."""

    image: int
    x: np.ndarray
    w: np.ndarray
    true: int
    read: int
    queries: int
    random_queries: int | None

    @property
    def success(self) -> bool:
        """Whether the network reads another digit now."""
        return self.read != self.true


def main(
    k: int = 3,
    images: int = 20,
    queries: int = 2000,
    seed: int = 0,
    out: str | Path = "out/pixel_attack.png",
    *,
    epochs: int = 40,
) -> list[Attack]:
    """Train the network, attack some of the images that it reads correctly, print the table, draw the picture."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    network = train(X_train, y_train, seed, epochs)
    read = network.predict(X_test)
    print(f"the network reads {np.mean(read == y_test):.1%} of {len(y_test)} test images correctly")
    print(f"at most {k} changed pixels, at most {queries} queries an image\n")

    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(np.flatnonzero(read == y_test), images, replace=False))
    print(f"{'image':>5}{'digit':>7}{'read as':>9}{'pixels':>8}{'queries':>9}{'random changes':>16}")
    attacks = []
    for image in chosen:
        attacks.append(attack(network, int(image), X_test[image], int(y_test[image]), k, queries, rng))
        print_row(attacks[-1])
    print_summary(attacks, k, queries)
    print(f"\npicture: {draw(attacks, k, out)}")
    return attacks


def train(X: np.ndarray, y: np.ndarray, seed: int, epochs: int) -> MLPClassifier:
    """A network that has seen every image once as it is, and ten times with 8% of its pixels black or white."""
    rng = np.random.default_rng(seed)
    spoilt = np.tile(X, (10, 1))
    hit = rng.random(spoilt.shape) < 0.08
    spoilt[hit] = rng.choice([0.0, WHITE], np.count_nonzero(hit))
    network = MLPClassifier(hidden_layer_sizes=(64,), random_state=seed)
    for _ in range(epochs):
        network.partial_fit(np.vstack([X, spoilt]), np.tile(y, 11), classes=np.unique(y))
    return network


def margin_of(network: Any, x: np.ndarray, true: int) -> Callable[[np.ndarray], np.ndarray]:
    """The margin of the true digit at x + w, for every row w of a matrix: one call of the network for all."""

    def margin(W: np.ndarray) -> np.ndarray:
        scores = np.log(np.maximum(network.predict_proba(x + W), 1e-300))
        own = scores[:, true].copy()
        scores[:, true] = -np.inf
        return own - scores.max(axis=1)

    return margin


def attack(
    network: Any, image: int, x: np.ndarray, true: int, k: int, queries: int, rng: np.random.Generator
) -> Attack:
    """Change at most k pixels of x so that the network misreads it, if the queries are enough."""
    margin = margin_of(network, x, true)
    risk = ez.risks.BlackBox(margin, n_features=x.size, batched=True)
    stay_an_image = ez.sets.Box(-x, WHITE - x)
    x0, best, spent = None, None, 0
    while best is None or (best.fun >= 0 and queries - spent >= 3):  # a run needs three queries
        allowed = min(SITTING, queries - spent)
        res = ez.minimize(risk, k, stay_an_image, x0=x0, max_queries=allowed, callback=stop_when_misread, rng=rng)
        spent += res.n_values + res.n_monitor
        best = res if best is None or res.fun < best.fun else best
        x0 = random_changes_of(x, k, 1, rng)[0]
    read = int(network.predict((x + best.x)[None, :])[0])
    return Attack(image, x, best.x, true, read, spent, random_search(margin, x, k, queries, rng))


def stop_when_misread(intermediate_result: ez.Result) -> None:
    """A negative margin is all we want."""
    if intermediate_result.fun < 0:
        raise StopIteration


def random_changes_of(x: np.ndarray, k: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """n rows w, each of which makes k pixels of x + w black or white."""
    W = np.zeros((n, x.size))
    pixels = np.argsort(rng.random(W.shape), axis=1)[:, :k]
    np.put_along_axis(W, pixels, rng.choice([0.0, WHITE], pixels.shape) - x[pixels], axis=1)
    return W


def random_search(
    margin: Callable[[np.ndarray], np.ndarray], x: np.ndarray, k: int, queries: int, rng: np.random.Generator
) -> int | None:
    """How many random changes it takes; None if `queries` are not enough."""
    misread = margin(random_changes_of(x, k, queries, rng)) < 0
    return int(np.argmax(misread)) + 1 if misread.any() else None


def print_row(a: Attack) -> None:
    """One image."""
    by_chance = "-" if a.random_queries is None else str(a.random_queries)
    new = str(a.read) if a.success else "-"
    print(f"{a.image:>5}{a.true:>7}{new:>9}{np.count_nonzero(a.w):>8}{a.queries:>9}{by_chance:>16}", flush=True)


def print_summary(attacks: list[Attack], k: int, queries: int) -> None:
    """Success rates and what they cost."""
    print()
    for name, spent in (
        ("the attack", [a.queries if a.success else None for a in attacks]),
        ("random changes", [a.random_queries for a in attacks]),
    ):
        won = sum(n is not None for n in spent)
        median = np.median([queries if n is None else n for n in spent])
        print(f"{name:<15}{won} of {len(spent)} images misread; median of the queries, failures included: {median:.0f}")
    lost = sum(not a.success for a in attacks)
    if lost:
        print(f"no way to misread the other {lost} by {k} pixels was found with {queries} queries each")


def draw(attacks: list[Attack], k: int, out: str | Path, columns: int = 8) -> Path:
    """Images before and after, changed pixels framed; failures last."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    shown = sorted(attacks, key=lambda a: not a.success)[:columns]
    lost = [a for a in attacks if not a.success]
    if lost and shown[-1].success:
        shown[-1] = lost[0]
    figure = Figure(figsize=(1.35 * len(shown) + 0.6, 3.7), layout="constrained")
    axes = figure.subplots(2, len(shown), squeeze=False)
    won = sum(a.success for a in attacks)
    figure.suptitle(f"at most {k} changed pixels: {won} of {len(attacks)} images misread", fontsize=11)
    for column, a in enumerate(shown):
        before, after = axes[:, column]
        for ax, pixels in ((before, a.x), (after, a.x + a.w)):
            ax.imshow(pixels.reshape(8, 8), cmap="gray", vmin=0, vmax=WHITE)
            ax.set(xticks=[], yticks=[])
        before.set_title(f"{a.true}", fontsize=11)
        color = "#D55E00" if a.success else "0.4"
        after.set_title(f"read as {a.read}" if a.success else f"still {a.read}", fontsize=10, color=color)
        after.set_xlabel(f"{a.queries} queries", fontsize=9)
        for pixel in np.flatnonzero(a.w):
            row, col = divmod(int(pixel), 8)
            after.add_patch(Rectangle((col - 0.5, row - 0.5), 1, 1, fill=False, ec=color, lw=1.8, clip_on=False))
    axes[0, 0].set_ylabel("the image")
    axes[1, 0].set_ylabel("changed")
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--k", type=int, default=3, help="pixels that may be changed (default 3)")
    parser.add_argument("--images", type=int, default=20, help="how many images to attack (default 20)")
    parser.add_argument("--queries", type=int, default=2000, help="queries for an image at the most (default 2000)")
    parser.add_argument("--seed", type=int, default=0, help="which network and images (default 0)")
    parser.add_argument("--out", default="out/pixel_attack.png", help="where the picture goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(**vars(parse()))
