"""Where tools/gpu_check.sh finds what it runs: the programs, their libraries, PyTorch; and what it packs for a bare machine.

A machine with a GPU may have no network and none of our libraries. So `gpu_check.sh pack` puts the programs, the module, the
shared libraries that such a machine lacks and the lengths of real texts into one file, carry/programs.tar.xz, in a folder
that git ignores. Where that file is, it is used; else what lies in a build folder.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from bench_programs import FAILED, IO, ROOT, USAGE, Failure, run, say

PROGRAMS = ["mixtape", "mixtape_gpu_ops", "mixtape_gpu_kernels", "mixtape_gpu_gelu"]
MODULE = "libmixtape_cuda.so"
PACKED = "programs.tar.xz"
# Every Linux has these, or they belong to the driver and the toolkit of the machine, which must fit its GPU.
NOT_CARRIED = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|cuda|cublas|cublasLt|cudart|nvrtc)\.so|/lib64/ld-linux)")
TOOLKITS = ["/usr/local/cuda", "/opt/cuda"]


class Places:
    """`folder` holds bin/ and lib/."""

    def __init__(self, options):
        self.options, self.carried = options, False
        self.packed = options.carry / PACKED
        self.folder = options.build
        if self.packed.is_file():
            self.folder, self.carried = unpacked(self.packed), True

    def program(self, name):
        return self.folder / "bin" / name

    @property
    def module(self):
        return self.folder / "lib" / MODULE

    @property
    def lengths(self):
        """(as a shuffle leaves them, in batches of like length), or None."""
        files = tuple(self.folder / "lengths" / name for name in ("shuffled", "bucketed"))
        return files if all(file.is_file() for file in files) else None

    def missing(self):
        """What the tree must bring and does not, in words."""
        return [f"{file} is not there" for file in [*map(self.program, PROGRAMS), self.module] if not file.is_file()]

    def library_path(self):
        """Where shared libraries are: what was carried, the toolkit's, PyTorch's."""
        folders = [self.folder / "lib"] if self.carried else []
        for toolkit in [os.environ.get("CUDA_HOME"), *TOOLKITS]:
            folders += [pathlib.Path(toolkit) / part for part in ("lib64", "lib")] if toolkit else []
        folders += python_libraries()
        return ":".join(str(folder) for folder in folders if folder.is_dir())

    def environment(self, **more):
        before = os.environ.get("LD_LIBRARY_PATH")
        return os.environ | {"LD_LIBRARY_PATH": ":".join(filter(None, [self.library_path(), before]))} | more

    def libraries(self):
        """[(file, library, where or None)] of all that is run."""
        found = []
        for file in [*map(self.program, PROGRAMS), self.module]:
            if file.is_file() and is_elf(file):
                found += [(file.name, name, at) for name, at in linked(file, self.environment())]
        return found

    def doctor(self):
        """What the program says of this machine, as it says it."""
        done = subprocess.run([self.program("mixtape"), "doctor", "--json"], env=self.environment(), capture_output=True, text=True)
        try:
            return json.loads(done.stdout)["cuda"]
        except (ValueError, KeyError):
            raise Failure(FAILED, f"mixtape doctor --json ended with {done.returncode}: {done.stderr.strip()[-300:]}") from None


def is_elf(file):
    with open(file, "rb") as opened:
        return opened.read(4) == b"\x7fELF"


def linked(file, env):
    """(library, where or None) of each shared library that `file` needs, itself or through others."""
    done = subprocess.run(["ldd", file], env=env, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        words = line.split()
        if "=>" in words:
            yield words[0], None if "not found" in line else words[2]


def python_libraries():
    """Folders of the libraries that PyTorch's packages bring: of this python3, and of the peer's."""
    folders = []
    for prefix in dict.fromkeys([sys.prefix, *filter(None, [os.environ.get("MIXTAPE_TORCH_ENV")])]):
        folders += sorted(pathlib.Path(prefix).glob("lib/python3*/site-packages/nvidia/*/lib"))
    return folders


def unpacked(packed):
    """build/carry with what the file holds, unpacked once."""
    to = ROOT / "build" / "carry"
    stamp, wanted = to / ".of", f"{packed.resolve()} {packed.stat().st_size} {packed.stat().st_mtime_ns}"
    if stamp.is_file() and stamp.read_text() == wanted:
        return to
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    try:
        with tarfile.open(packed) as archive:
            archive.extractall(to, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(to)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Failure(IO, f"{packed} cannot be unpacked: {error}") from None
    stamp.write_text(wanted)
    return to


# PyTorch

def peer_python(options):
    """(the first Python that imports torch and transformers, its versions), or (None, why)."""
    from bench_peer import versions
    candidates = [options.python, os.environ.get("MIXTAPE_TORCH_ENV") and pathlib.Path(os.environ["MIXTAPE_TORCH_ENV"]) / "bin/python",
                  options.carry / "torch/bin/python", ROOT / "downloads/torch/bin/python", shutil.which("python3")]
    tried = [pathlib.Path(python) for python in candidates if python and pathlib.Path(python).exists()]
    for python in tried[:1] if options.python else tried:
        if found := versions(python):
            return python, found
    return None, "no Python with torch and transformers: looked at " + ", ".join(map(str, tried))


# Packing

def pack(options):
    """Writes carry/programs.tar.xz from a build folder."""
    from bench_peer import tweet_lengths
    from bench_peer_rows import Texts
    places = Places(options)
    places.folder, places.carried = options.build, False
    if missing := places.missing():
        raise Failure(USAGE, "\n".join(missing) + "\nbuild them: cmake --build " + str(options.build) + " --target mixtape_gpu_tests")
    options.carry.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("bin", "lib", "lengths"):
            (folder / part).mkdir()
        files = [*map(places.program, PROGRAMS), places.module]
        for file in files:
            shutil.copy2(file, folder / file.parent.name / file.name)
            if is_elf(file):
                run(["strip", "--strip-unneeded" if file.suffix == ".so" else "--strip-debug", folder / file.parent.name / file.name])
        for _, library, at in places.libraries():
            if at and not NOT_CARRIED.match(library):
                shutil.copy2(os.path.realpath(at), folder / "lib" / library)
        options.program = places.program("mixtape")
        if (options.data / "tweet_eval").is_dir():
            Texts(tweet_lengths(options), 32, folder / "lengths")
        else:
            say(f"{options.data} has no tweet_eval: real lengths will not be measured")
        write_archive(folder, options.carry / PACKED)
    built_for = json.loads(run([places.program("mixtape"), "doctor", "--json"]))["build"]["architecture"]
    if built_for == "native":
        say("the programs use all that this processor has; for another one build with -DMIXTAPE_ARCH=x86-64-v3")
    size = (options.carry / PACKED).stat().st_size
    say(f"{options.carry / PACKED}: {size / 2**20:.1f} MiB; copy it with the tree")
    return 0


def write_archive(folder, to):
    part = to.with_name(to.name + ".part")
    with tarfile.open(part, "w:xz", preset=6) as archive:
        for child in sorted(folder.iterdir()):
            archive.add(child, child.name)
    part.replace(to)
