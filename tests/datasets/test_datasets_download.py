"""dna inside the package, and the downloader against a server of our own."""

import hashlib
import http.server
import json
import sys
import threading

import numpy as np
import pytest

import ellzero as ez
from common import SHARED
from ellzero.datasets import dna as _dna
from ellzero.datasets import download as _download
from ellzero.datasets import fetch, fetch_dna, load_dna


@pytest.fixture(scope="module")
def dna():
    return load_dna()


def rows(data):
    return np.vstack([data.X, data.X_test]), np.concatenate([data.y, data.y_test])


def test_the_copy_has_the_counts_of_its_documentation(dna):
    assert dna.X.shape == (2000, 180) and dna.X_test.shape == (1186, 180)
    assert np.bincount(dna.y)[1:].tolist() == [464, 485, 1051]
    assert np.bincount(dna.y_test)[1:].tolist() == [303, 280, 603]
    X, _ = rows(dna)
    assert set(np.unique(X)) == {0.0, 1.0}
    assert X.reshape(len(X), 60, 3).sum(axis=2).max() == 1  # one letter for three columns
    assert len(np.unique(X, axis=0)) == 3001


def test_the_copy_is_the_original(dna, tmp_path):
    path = SHARED / "data" / "dna" / "dna.npz"
    if not path.exists():
        pytest.skip(f"the original dna rows are not at {path}")
    original = np.load(path)
    X, y = rows(dna)
    np.testing.assert_array_equal(X, original["X"])
    np.testing.assert_array_equal(y, original["y"])
    np.testing.assert_array_equal(load_dna(path).X_test, dna.X_test)
    made = _dna.write_copy(path, tmp_path / "dna.npz")
    with np.load(made) as copy:
        np.testing.assert_array_equal(_dna.unpack(copy["letters"], copy["labels"])[0], X)


def test_dna_is_learnt(dna):
    """The sanity value of the data's documentation: l2 logistic regression reaches a test accuracy of 0.949."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.05).fit(dna.X, dna.y)
    assert model.score(dna.X_test, dna.y_test) == pytest.approx(0.949, abs=0.003)


def test_packing_is_a_bijection():
    rng = np.random.default_rng(0)
    letters = rng.integers(0, 4, (7, 60))
    X = (letters[..., None] == np.array([1, 2, 3])).reshape(7, 180).astype(np.uint8)
    y = rng.integers(1, 4, 7)
    back, labels = _dna.unpack(*_dna.pack(X, y))
    np.testing.assert_array_equal(back, X)
    np.testing.assert_array_equal(labels, y)


def libsvm(X, y):
    return "".join(
        f"{label} {' '.join(f'{j + 1}:1' for j in np.flatnonzero(row))}\n" for row, label in zip(X, y, strict=True)
    )


def test_dna_from_libsvm_files(dna, tmp_path):
    (tmp_path / "dna.scale").write_text(libsvm(dna.X, dna.y))
    (tmp_path / "dna.scale.t").write_text(libsvm(dna.X_test, dna.y_test))
    read = load_dna(tmp_path)
    np.testing.assert_array_equal(read.X, dna.X)
    np.testing.assert_array_equal(read.y_test, dna.y_test)
    (tmp_path / "dna.scale").write_text(libsvm(dna.X[::-1], dna.y[::-1]))
    with pytest.raises(ValueError, match=r"checksum of its 3186 rows is .*LIBSVM's dna.scale"):
        load_dna(tmp_path)
    (tmp_path / "dna.scale").write_text(libsvm(2 * dna.X, dna.y).replace(":1", ":2"))
    with pytest.raises(ValueError, match="not binary"):
        load_dna(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_dna(tmp_path / "nowhere")


def test_a_damaged_copy_is_noticed(monkeypatch):
    monkeypatch.setattr(_dna, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="the package's copy does not hold the dna data"):
        load_dna()


# ---- the network ----


@pytest.fixture
def server():
    """An HTTP server on this machine; `pages` maps paths to contents, `asked` lists what was asked for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked.append(self.path)
            content = self.server.pages.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.pages, httpd.asked = {}, []
        httpd.url = f"http://127.0.0.1:{httpd.server_port}"
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield httpd
        httpd.shutdown()
        thread.join()


def test_fetch_downloads_once(server, tmp_path):
    server.pages["/a/b.txt"] = b"hello"
    known = hashlib.sha256(b"hello").hexdigest()
    path = fetch(server.url + "/a/b.txt", sha256=known, cache=tmp_path)
    assert path == tmp_path / "b.txt" and path.read_bytes() == b"hello"
    assert fetch(server.url + "/a/b.txt", sha256=known.upper(), cache=tmp_path) == path
    assert server.asked == ["/a/b.txt"]
    path.write_bytes(b"damaged")  # what does not fit its checksum is downloaded again
    assert fetch(server.url + "/a/b.txt", sha256=known, cache=tmp_path).read_bytes() == b"hello"
    assert len(server.asked) == 2


def test_fetch_refuses_a_wrong_file(server, tmp_path):
    server.pages["/x"] = b"something else"
    with pytest.raises(ValueError, match=r"/x: the file that came does not have sha256=0000"):
        fetch(server.url + "/x", sha256="0" * 64, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_fetch_says_what_to_do_without_a_network(server, tmp_path):
    with pytest.raises(ConnectionError, match=r"cannot download .*/gone .*404.*put it at .*gone"):
        fetch(server.url + "/gone", cache=tmp_path)
    server.shutdown()
    server.server_close()
    with pytest.raises(ConnectionError, match="look at the network, or download the file by hand"):
        fetch(server.url + "/x", cache=tmp_path, timeout=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "some/file"}, "url must begin with http"),
        ({"url": "http://127.0.0.1/x", "sha256": "abc"}, "sha256 must be 64 hexadecimal digits, got 'abc'"),
    ],
)
def test_fetch_refuses_nonsense(options, message):
    with pytest.raises(ValueError, match=message):
        fetch(**options)


def test_the_cache_can_be_chosen(server, tmp_path, monkeypatch):
    monkeypatch.setenv("ELLZERO_CACHE", str(tmp_path / "cache"))
    server.pages["/x"] = b"1"
    assert fetch(server.url + "/x") == tmp_path / "cache" / "x"
    monkeypatch.delenv("ELLZERO_CACHE")
    assert _download.default_cache().name == "ellzero"


def test_dna_from_libsvm(server, dna, tmp_path):
    server.pages["/m/dna.scale"] = libsvm(dna.X, dna.y).encode()
    server.pages["/m/dna.scale.t"] = b"<html>moved</html>"
    with pytest.raises(ValueError, match="cannot read"):
        fetch_dna(base_url=server.url + "/m", cache=tmp_path)
    assert list(tmp_path.iterdir()) == []  # nothing wrong is kept
    server.pages["/m/dna.scale.t"] = libsvm(dna.X_test, dna.y_test).encode()
    read = fetch_dna(base_url=server.url + "/m", cache=tmp_path)
    np.testing.assert_array_equal(rows(read)[0], rows(dna)[0])
    assert read.source == str(tmp_path)


def arff(X, y):
    head = "".join(f"@ATTRIBUTE A{j} {{0,1}}\n" for j in range(X.shape[1])) + "@ATTRIBUTE class {1,2,3}\n"
    body = "\n".join(",".join(map(str, [*map(int, row), label])) for row, label in zip(X, y, strict=True))
    return f"@RELATION dna\n\n{head}\n@DATA\n{body}\n".encode()


def test_dna_from_openml_in_any_order(server, dna, tmp_path):
    X, y = rows(dna)
    order = np.random.default_rng(0).permutation(len(y))
    describe = {"data_set_description": {"id": "40670", "url": server.url + "/files/dna.arff"}}
    server.pages["/api/40670"] = json.dumps(describe).encode()
    server.pages["/files/dna.arff"] = arff(X[order], y[order])
    read = fetch_dna("openml", base_url=server.url + "/api", cache=tmp_path)
    np.testing.assert_array_equal(rows(read)[0], X)
    np.testing.assert_array_equal(rows(read)[1], y)


@pytest.mark.parametrize(
    ("description", "file", "message"),
    [
        (b"not json", b"", "not a description of a data set of OpenML"),
        (b"{}", b"", "not a description of a data set of OpenML"),
        (None, b"<html>", "not an ARFF file of numbers"),
        (None, arff(np.eye(180)[:3], [1, 2, 3]), "does not hold the rows of dna"),
    ],
)
def test_what_openml_may_send_instead(server, tmp_path, description, file, message):
    right = json.dumps({"data_set_description": {"url": server.url + "/dna.arff"}}).encode()
    server.pages["/40670"], server.pages["/dna.arff"] = description or right, file
    with pytest.raises(ValueError, match=message):
        fetch_dna("openml", base_url=server.url, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unknown_sources_are_refused():
    with pytest.raises(ValueError, match="source must be one of libsvm, openml, got 'web'"):
        fetch_dna("web")


def test_missing_pooch_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match="pip install ellzero"):
        fetch("http://127.0.0.1/x")
    ez.datasets.load_dna()  # the copy needs nothing
