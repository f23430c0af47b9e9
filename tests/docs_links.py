"""What a page points at: links and their anchors, files and functions in `code`, verbs and options of the program."""

import re
import shlex

from docs_pages import FENCE

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"(`+)(.+?)\1")
FILE = re.compile(r"^(?:\.\./|\./)*[\w.*/-]+$")
SOURCE = re.compile(r"\w(?:\.(?:h|c|cc|cpp|cu|cuh|md|py|sh|cmake)|CMakeLists\.txt)$")
FUNCTION = re.compile(r"^([\w./-]+\.\w+):([A-Za-z_]\w*)$")
VERB = re.compile(r"(?:^|[|;&(`$]) *(?:[\w./]+/)?mixtape((?: +[^|;&<>#`)]+)+)")


def outside_fences(text):
    """(line number, line) of what is no code block."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    found = set()
    for _, line in outside_fences(text):
        if match := re.match(r"#{1,6} +(.*?) *#*$", line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1))
            name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            again, count = name, 0
            while again in found:
                count += 1
                again = f"{name}-{count}"
            found.add(again)
    return found


class Tree:
    """The files that a page can point at."""

    def __init__(self, files, folders):
        self.files = files  # path from the root -> its text, or None where it is not read
        self.folders = folders
        self.top = {path.split("/")[0] for path in files if "/" in path}

    def resolve(self, page, name):
        """The path from the root that `name` means in `page`, or "": beside the page, from the root, or the end of a path."""
        beside = normal(page.rsplit("/", 1)[0] + "/" + name if "/" in page else name)
        for path in (beside, normal(name)):
            if path is not None and (path in self.files or path in self.folders):
                return path
        if "*" in name:
            fits = re.compile("(?:.*/)?" + re.escape(name).replace(r"\*", "[^/]*") + r"\Z")
            return next((path for path in self.files if fits.match(path)), "")
        return next((path for path in self.files if path.endswith("/" + name)), "")


def normal(path):
    """The path without . and .., or None where it leaves the root."""
    parts = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in (".", ""):
            parts.append(part)
    return "/".join(parts)


def link_faults(tree, page, text):
    for number, line in outside_fences(text):
        for target in LINK.findall(SPAN.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = normal((page.rsplit("/", 1)[0] + "/" if "/" in page else "") + name) if name else page
            if path is None or not (path in tree.files or path in tree.folders):
                yield f"{page}:{number}: a link to {target}, which is not there"
            elif anchor and anchor not in anchors(tree.files.get(path) or ""):
                yield f"{page}:{number}: {path} has no heading #{anchor}"


def span_faults(tree, page, text):
    own = {match.group(2) for match in map(FENCE.match, text.split("\n")) if match and match.group(2)}  # files that the reader makes
    for number, line in outside_fences(text):
        for _, span in SPAN.findall(line):
            words = span.split()
            if not words:
                continue
            function = FUNCTION.match(span)
            name = function.group(1) if function else words[0]
            if not FILE.match(name) or not (SOURCE.search(name) or ("/" in name and name.split("/")[0] in tree.top)):
                continue
            beside_the_clone = "/shared/" in "/" + name
            if beside_the_clone or name in own:
                continue
            path = tree.resolve(page, name)
            if not path:
                yield f"{page}:{number}: `{name}` is no file of the tree"
            elif function and not re.search(rf"\b{function.group(2)}\b", tree.files.get(path) or ""):
                yield f"{page}:{number}: {path} has no `{function.group(2)}`"


def command_faults(verbs, page, text):
    """`verbs`: "inspect ledger" -> its options; a group has those of its own."""
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            continue
        for words in VERB.findall(line):
            try:
                tokens = shlex.split(words, comments=True)
            except ValueError:  # a quote that ends on the next line
                tokens = words.split()
            path = ""
            while tokens and f"{path} {tokens[0]}".strip() in verbs:
                path = f"{path} {tokens.pop(0)}".strip()
            if not path and not (tokens and tokens[0].startswith("--")):
                continue  # a sentence about the program
            below = [verb for verb in verbs if verb.startswith(path + " ")]
            if path and below and tokens and re.match(r"[a-z][a-z-]+$", tokens[0]):
                yield f"{page}:{number}: mixtape {path} has no verb {tokens[0]}"
                continue
            for token in tokens:
                option = token.split("=")[0].rstrip(".,:")
                if option.startswith("--") and option not in verbs[path]:
                    yield f"{page}:{number}: mixtape {path} has no option {option}"


def lonely(tree):
    """Pages of docs/ that no other page of docs/ names."""
    pages = {path: text for path, text in tree.files.items() if path.startswith("docs/") and path.endswith(".md")}
    for path in sorted(pages):
        folder, name = path.rsplit("/", 1)
        names = {name} if name != "README.md" else {folder.rsplit("/", 1)[-1] + "/", folder.rsplit("/", 1)[-1] + "/README.md"}
        if path != "docs/README.md" and not any(
                other != path and any(word in text for word in names) for other, text in pages.items()):
            yield f"{path}: no other page of docs names it"
