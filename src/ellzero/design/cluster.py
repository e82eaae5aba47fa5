"""Data on the workers of a Dask cluster: w goes out, and sums over the rows of each part come back."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from .._core.lazy import need
from .._core.memory import allowance
from .base import Design, check_kind, not_finite
from .blocks import Blocks
from .by_row import ByRow, Layout
from .dense import Dense
from .files import as_part, float_of
from .parted import Parted, Tally, rows_of
from .program import Node, Program

_WORDS = "data on a cluster need Dask: pip install ellzero[dask]"
_FAN = 16  # sums that are added up by one task, and that come back at most
_PATIENCE = 60.0  # seconds, for the first worker
_PARTS = 8  # for each thread of the cluster; smaller chunks are put together


class Workers(Layout):
    """Parts that are kept by workers, and with them the vectors as long as they have rows.

    What a worker keeps can be computed again from what the client has sent for it, so that none of them is needed.

    Attributes
    ----------
    client : distributed.Client
    whole, root : lists of futures
        The parts that the data come in, and those among them that the parts of this layout are made of.
    memory : float
        How many bytes may come to where this runs at a time.
    """

    def __init__(
        self, client: Any, whole: list[Any], root: list[Any], places: list[Any], n: int, memory: float, tally: Tally,
        chosen: list[tuple[int, Any]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(places, n, chosen)
        self.client, self.whole, self.root, self.memory, self.tally = client, whole, root, memory, tally

    def given(self, values: np.ndarray) -> ByRow:
        parts = [values[place] for place in self.places]
        self.tally.bytes_out += values.nbytes
        return ByRow(self, values[:0], leaf=self.client.map(_second, self.root, parts, pure=False))

    def _ask(self, work: Callable[..., Any], *nodes: Node) -> list[Any]:
        """Futures of work(part of each node)."""
        program, leaves = Program.of(nodes)
        self.tally.rounds += 1
        self.tally.rows += self.n * any(leaf is self.root for leaf in leaves)
        from distributed.protocol import pickle as pickles  # also functions that have no name

        job: Any = pickles.dumps((program, work))
        self.tally.bytes_out += len(job) * (1 if len(job) > _LARGE else len(self.places))
        if len(job) > _LARGE:  # to one worker, from which the others get it
            job = self.client.submit(_itself, job, pure=False)
        return list(self.client.map(_run, *leaves, job=job, pure=False))

    def held(self, node: Node) -> Node:
        """A node that the workers compute once, and keep."""
        return Node(self, leaf=self._ask(_itself, node))

    def fold(self, work: Callable[..., Any], add: Callable[[Any, Any], Any], *nodes: Node) -> Any:
        sums = self._ask(work, *nodes)
        while len(sums) > _FAN:  # always in the same order
            groups = [sums[i : i + _FAN] for i in range(0, len(sums), _FAN)]
            sums = [self.client.submit(_reduced, add, group, pure=False) for group in groups]
        return _reduced(add, self._collected(sums))

    def gather(self, node: ByRow) -> np.ndarray:
        wanted = node.dtype.itemsize * node.size
        if wanted > self.memory:
            raise MemoryError(
                f"{wanted / 1e9:.3g} GB, {node.shape[0]} rows, are wanted from the workers at once, which is more than "
                f"memory={self.memory:.3g} bytes allow; give ez.Distributed(X, memory=...) more if there is"
            )
        whole = np.empty(node.shape, node.dtype)
        for place, part in zip(self.places, self._collected(self._ask(_itself, node)), strict=True):
            whole[place] = part
        return whole

    def take(self, node: ByRow, index: np.ndarray) -> np.ndarray:
        program, leaves = Program.of([node])
        found, self.tally.rounds = self.split(index), self.tally.rounds + 1
        lines = [within for _, _, within in found]
        some = [[leaf[i] for i, _, _ in found] for leaf in leaves]
        parts = self.client.map(_run_lines, lines, *some, program=program, pure=False)
        whole = np.empty((index.size, *node.shape[1:]), node.dtype)
        for (_, place, _), part in zip(found, self._collected(parts), strict=True):
            whole[place] = part
        return whole

    def _collected(self, futures: list[Any]) -> list[Any]:
        found = self.client.gather(futures)
        self.tally.bytes_in += sum(map(_bytes_of, found))
        return list(found)


_LARGE = 2**16  # bytes


class OnWorkers(Parted):
    """Rows and columns of a matrix that is on the workers of a cluster."""

    layout: Workers

    def __init__(self, layout: Workers, block: Node, n_columns: int, dtype: Any) -> None:
        self.layout, self.block, self.tally, self.memory = layout, block, layout.tally, layout.memory
        self.shape, self.reference = (layout.n, n_columns), np.empty(0, dtype=dtype)

    @classmethod
    def recognises(cls, X: Any) -> bool:
        return is_dask(X)

    @classmethod
    def read(cls, X: Any, name: str) -> Design:
        if (client := running_client()) is not None:
            return Distributed(X, client=client)
        array, names = _as_array(X)
        blocks = Blocks(_Partitions(array))
        blocks.names = names
        return blocks

    def columns(self, index: Any) -> Design:
        index = np.asarray(index)
        if not index.size:
            return Dense(np.empty((self.shape[0], 0), self.reference.dtype))
        piece = self.layout.held(Node(self.layout, _columns, (self.block, index)))
        part = OnWorkers(self.layout, piece, index.size, self.reference.dtype)
        part.narrow = True
        return part

    def _part_of(self, index: np.ndarray) -> OnWorkers:
        layout = self.layout
        index = np.flatnonzero(index) if index.dtype == bool else index
        places, chosen = layout.selection(index)
        root = [layout.whole[number] for number, _ in chosen]
        part = Workers(layout.client, layout.whole, root, places, index.size, layout.memory, layout.tally, chosen)
        lines = layout.client.map(_second, root, [rows for _, rows in chosen], pure=False)
        block = Node(part, rows_of, (Node(part, leaf=root), Node(part, leaf=lines)))
        return OnWorkers(part, block, self.shape[1], self.reference.dtype)

    def fits(self, n_rows: int, n_columns: int) -> bool:
        return bool(4 * n_rows * n_columns * self.reference.itemsize <= self.memory)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "data on a cluster stay with the client that reads them, and are not sent to another process; use "
            "n_jobs=None: the workers of the cluster share the work in any case"
        )


class Distributed(OnWorkers):
    """X on the workers of a Dask cluster; w goes out, sums over the rows of each part come back.

    The rows never leave the workers, and neither do predictions and what is made of them. Parts are added up in the
    order of the rows, whoever computes them, and what a worker has lost that died others compute anew from the graph of
    X: the same answer, but for the rounding of the last digits of products that are computed elsewhere. Dask arrays and
    data frames are recognised wherever X is asked for; this class is for those who want to name the client.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Of chunks of rows; chunks of columns are put side by side, and many small ones together.
    client : distributed.Client, optional
        The one that was started last, by default.
    memory : float, optional
        Bytes that may come from the workers to this process at a time; by default a quarter of what it may use.

    Attributes
    ----------
    shape : (n, p)
    names : list of str or None
        Of the columns of a data frame.
    tally : Tally
        How often the workers were asked, and what went out and came back, in bytes.

    Examples
    --------
    >>> import dask.array as da, distributed, ellzero as ez
    >>> client = distributed.Client(processes=False, dashboard_address=":0")
    >>> X = da.random.default_rng(0).standard_normal((1000, 20), chunks=(250, 20))
    >>> risk = ez.risks.LeastSquares(ez.Distributed(X, client=client), X[:, 3])
    >>> ez.minimize(risk, k=1).support.tolist()
    [3]
    >>> client.close()
    """

    def __init__(self, X: Any, *, client: Any = None, memory: float | None = None) -> None:
        need("distributed", _WORDS)
        client = running_client() if client is None else client
        if client is None:
            raise ValueError(
                "client must be a distributed.Client, and none is running; start one (client = distributed.Client()), "
                "or hand X in as it is: without a client its parts are read one after the other"
            )
        if not OnWorkers.recognises(X):
            raise TypeError(f"X must be a Dask array or data frame, got {type(X).__name__}; use dask.array.from_array")
        limit = allowance(memory)
        _await_workers(client)
        X, names = _as_array(X, most=_PARTS * max(1, sum(client.nthreads().values())))
        parts = zip(X.to_delayed().ravel(), X.chunks[0], strict=True)
        root = client.compute([_delayed_part(block, float_of(X), (n, X.shape[1])) for block, n in parts])
        bounds = np.cumsum([0, *X.chunks[0]]).tolist()
        places = [slice(a, b) for a, b in pairwise(bounds)]
        layout = Workers(client, root, root, places, bounds[-1], limit, Tally(bounds[-1]))
        super().__init__(layout, Node(layout, leaf=root), X.shape[1], float_of(X))
        self.names = names
        self.squares, self.sums = self._fold(_look)
        if not np.isfinite(self.squares).all():
            _, bad = self._fold(_first_bad, add=_first)
            if bad is not None:
                raise not_finite("X", *bad)


def running_client() -> Any:
    """The client that was started last; None where there is none."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].default_client()
    except ValueError:
        return None


def _await_workers(client: Any) -> None:
    """Refuse a client that is closed, and a cluster without workers once it was waited for these."""
    if client.status != "running":
        raise ValueError(f"client must be connected to a cluster, and it is {client.status}; start another one")
    if not client.nthreads():
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError as error:
            raise TimeoutError(
                f"the cluster has had no workers for {_PATIENCE:g} s; start some (cluster.scale(3), dask worker "
                "ADDRESS), and look at the queue if they are jobs of a batch system"
            ) from error


def map_parts(f: Callable[..., Any], X: Any, names: Any, n_columns: int) -> Any:
    """f of the rows of each part of a Dask collection, as a Dask array that nobody has computed yet."""
    if _is_frame(X):
        missing = [name for name in names if name not in X.columns] if names is not None else []
        if missing:
            raise ValueError(f"X has no column {missing[0]!r}, which was there when the model was fitted")
        X = X if names is None else X[list(names)]
    elif X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if X.shape[1] != n_columns:
        raise ValueError(f"X has {X.shape[1]} features, and the model was fitted to {n_columns}")
    sample = np.asarray(f(np.zeros((1, n_columns))))
    if _is_frame(X):
        X = X.to_dask_array()
    wide = {"drop_axis": 1} if sample.ndim == 1 else {"chunks": (X.chunks[0], (sample.shape[1],))}

    def mapped(part: np.ndarray) -> np.ndarray:
        return np.asarray(f(part)) if len(part) else sample[:0]

    return X.map_blocks(mapped, dtype=sample.dtype, meta=sample[:0], **wide)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame."""
    # whoever hands in such a collection has imported Dask, so nobody else needs to wait for that import
    return _is_array(X) or _is_frame(X)


def _is_array(X: Any) -> bool:
    return "dask.array" in sys.modules and isinstance(X, sys.modules["dask.array"].Array)


def _is_frame(X: Any) -> bool:
    return "dask.dataframe" in sys.modules and isinstance(X, sys.modules["dask.dataframe"].DataFrame)


def _as_array(X: Any, most: int | None = None) -> tuple[Any, list[str] | None]:
    """A Dask array in chunks of rows, at most so many where that is said, and the names of its columns."""
    names = None
    if _is_frame(X):
        names = [str(name) for name in X.columns]
        for name, dtype in X.dtypes.items():
            check_kind(_plain(dtype), f"the column {name!r} of X")
        if len(set(X.dtypes)) > 1 or not isinstance(X.dtypes.iloc[0], np.dtype):
            X = X.astype(float)  # or they would come as objects
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be two-dimensional, with at least one row and one column, got shape {X.shape}")
    check_kind(X.dtype, "X")
    if np.isnan(X.shape[0]):
        X = X.compute_chunk_sizes()
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if 0 in X.chunks[0] or (most is not None and X.numblocks[0] > most):
        X = X.rechunk({0: _merged(X.chunks[0], most)})
    return X, names


def _plain(dtype: Any) -> np.dtype:
    """What NumPy makes of the numbers of a column that may have gaps; objects of everything else."""
    return np.dtype(getattr(dtype, "numpy_dtype", object)) if not isinstance(dtype, np.dtype) else dtype


def _merged(sizes: tuple[int, ...], most: int | None) -> tuple[int, ...]:
    """Neighbouring chunks put together, so that there are at most so many, and none is empty."""
    there = [size for size in sizes if size]
    each = -(-len(there) // most) if most is not None else 1
    return tuple(sum(there[i : i + each]) for i in range(0, len(there), each))


class _Partitions:
    """The chunks of a Dask array as blocks, computed one by one where this runs."""

    def __init__(self, X: Any) -> None:
        self.chunks = X.to_delayed().ravel()

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, i: int) -> Any:
        return self.chunks[i].compute()


# What workers do.


def _delayed_part(block: Any, dtype: np.dtype, shape: tuple[int, int]) -> Any:
    from dask.delayed import delayed

    return delayed(partial(_part, dtype=dtype, shape=shape), pure=False)(block)


def _part(block: Any, dtype: np.dtype, shape: tuple[int, int]) -> Design:
    if tuple(block.shape) != shape:
        raise ValueError(
            f"a chunk of X has shape {tuple(block.shape)}, and Dask takes it for one of {shape}; tell map_blocks which "
            "chunks it makes (chunks=), or call X.compute_chunk_sizes()"
        )
    return as_part(block, dtype)


def _run(*leaves: Any, job: bytes) -> Any:
    program, work = pickle.loads(job)
    return work(*program.run(leaves))


def _run_lines(lines: np.ndarray, *leaves: Any, program: Program) -> Any:
    return program.run(leaves)[0][lines]


def _itself(value: Any) -> Any:
    return value


def _second(beside: Any, value: Any) -> Any:
    """A value that is kept where another one is."""
    return value


def _reduced(add: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    return reduce(add, values)


def _columns(block: Design, index: np.ndarray) -> Design:
    return block.columns(index)


def _look(block: Design) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore", invalid="ignore"):
        return block.squares, block.sums


def _first_bad(block: Design) -> tuple[int, tuple[float, int, int] | None]:
    """How many rows there are, and the first entry that is not finite."""
    X = np.asarray(block.dense())
    bad = [(float(X[i, j]), int(i), int(j)) for i, j in np.argwhere(~np.isfinite(X))[:1]]
    return X.shape[0], bad[0] if bad else None


def _first(a: Any, b: Any) -> Any:
    bad = a[1]
    if bad is None and b[1] is not None:
        bad = (b[1][0], a[0] + b[1][1], b[1][2])
    return a[0] + b[0], bad


def _bytes_of(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes_of, value))
    return int(getattr(value, "nbytes", 8))
