"""F3: power loss. A whole run is recorded; for the state after each call, everything that was not synced is dropped,
scrambled or undone, and the run must go on from what is left."""
import random
import shutil

from harness import CHANGING


class File:
    def __init__(self):
        self.data, self.synced = bytearray(), b""

    def torn(self, rng):
        """What may be found after a crash: the synced bytes, and of later ones anything."""
        if bytes(self.data) == self.synced:
            return self.synced
        fate = rng.choice(("old", "empty", "half", "zeros", "all"))
        if fate == "old":
            return self.synced
        if fate == "empty":
            return b""
        if fate == "half":
            return bytes(self.data[: rng.randrange(len(self.data) + 1)])
        return bytes(len(self.data)) if fate == "zeros" else bytes(self.data)


class Folder:
    """Names now, names on the disk, and the changes between the two, in order."""

    def __init__(self):
        self.names, self.synced, self.pending = {}, {}, []

    def change(self, edit):
        edit(self.names)
        self.pending.append(edit)

    def sync(self):
        self.synced, self.pending = dict(self.names), []

    def torn(self, rng):
        names = dict(self.synced)
        for edit in self.pending[: rng.randrange(len(self.pending) + 1)]:
            edit(names)
        return names


def put(name, item):
    return lambda names: names.__setitem__(name, item)


def drop(name):
    return lambda names: names.pop(name, None)


class Disk:
    """What the journal of the shim did, call by call, below `root`."""

    def __init__(self, root):
        self.root, self.top, self.open = str(root), Folder(), {}
        self.place = Folder()  # the directory that holds the root
        self.complete = 0      # the step of the newest checkpoint that must survive
        self.renamed = 0

    def find(self, path):
        item = self.top
        for part in path[len(self.root):].strip("/").split("/"):
            item = item.names.get(part) if part and item else item
        return item

    def parent(self, path):
        folder, _, name = path.rpartition("/")
        return (self.place if path == self.root else self.find(folder)), name

    def apply(self, what, rest, data):
        if what == "open":
            self.opened(int(rest[0]), rest[1], rest[2] == "1", rest[3] == "1")
        elif what in ("write", "append"):
            file, offset = self.open[int(rest[0])], int(rest[1])
            file.data[offset: offset + len(data)] = data
        elif what == "truncate":
            file = self.open[int(rest[0])]
            del file.data[int(rest[2]):]
        elif what == "fsync":
            item = self.open[int(rest[0])]
            if isinstance(item, Folder):
                item.sync()
                self.complete = max(self.complete, self.renamed)
            else:
                item.synced = bytes(item.data)
        elif what == "close":
            self.open.pop(int(rest[0]), None)
        elif what == "mkdir":
            folder, name = self.parent(rest[0])
            folder.change(put(name, Folder()))
        elif what == "unlink":
            folder, name = self.parent(rest[0])
            folder.change(drop(name))
        else:
            self.renaming(what, *rest)

    def opened(self, number, path, creates, truncates):
        item = self.top if path == self.root else self.find(path)
        if item is None and creates:
            item = File()
            folder, name = self.parent(path)
            folder.change(put(name, item))
        if truncates:
            item.data = bytearray()
        self.open[number] = item

    def renaming(self, what, a, b):
        folder, old = self.parent(a)
        new = b.rpartition("/")[2]
        first, second = folder.names[old], folder.names.get(new)

        def edit(names):
            names[new] = first
            if what == "exchange":
                names[old] = second
            else:
                names.pop(old, None)
        folder.change(edit)
        if new.startswith("step-") and ".tmp." not in new:
            self.renamed = int(new[5:])

    def write_torn(self, target, rng):
        def make(names, path):
            path.mkdir()
            for name, item in names.items():
                if isinstance(item, Folder):
                    make(item.torn(rng), path / name)
                else:
                    (path / name).write_bytes(item.torn(rng))
        make(self.top.torn(rng), target)


def read_journal(path):
    """Yields (what, rest, data)."""
    text = path.read_bytes()
    at = 0
    while at < len(text):
        end = text.index(b"\n", at)
        what, *rest = text[at:end].decode().split("\t")
        at = end + 1
        data = b""
        if what in ("write", "append"):
            data = text[at: at + int(rest[2])]
            at += len(data)
        yield what, rest, data


def run(lab):
    config = lab.config("torn")
    lab.reference(config)
    run_dir, journal = lab.new_dir(), lab.folder / "journal"
    lab.train(config, run_dir, "-q", OPS=CHANGING, JOURNAL=journal)
    calls = [call for call in read_journal(journal) if not (call[0] == "mkdir" and call[1][0] == str(run_dir))]
    shutil.rmtree(run_dir)
    seeds = lab.number(20, 1)
    chosen = set(lab.sample(len(calls), 25))
    tries, disk = [], Disk(run_dir)
    for k, call in enumerate(calls, 1):
        disk.apply(*call)
        if k not in chosen:
            continue
        for seed in range(seeds):
            target = lab.new_dir()
            disk.write_torn(target, random.Random(k * 1000 + seed))
            tries.append((k, seed, target, disk.complete))

    def recover(case):
        k, seed, target, complete = case
        done = lab.train(config, target, "--recover")
        if done.code != 0:
            return f"after call {k}, seed {seed}: {done}"
        finished = "is finished" in done.err
        if not finished and done.resumed_at() < complete:
            return f"after call {k}, seed {seed}: step {complete} was on the disk, it went on after {done.resumed_at()}"
        wrong = lab.finish(config, target)
        shutil.rmtree(target)
        return wrong and f"after call {k}, seed {seed}: {wrong}"

    lab.check("F3", f"power loss after the k-th call (of {len(calls)}), what was not synced is torn", tries, recover)
