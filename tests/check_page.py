#!/usr/bin/env python3
"""A report is well-formed, accessible and alone: check_page.py FILE... (without: tests/golden/report/page.html)

Every tag closed in order, no attribute twice, ids once, links and labels that lead somewhere; title, language, headings
without a gap, headers of tables with their scope, pictures with a name; no script, no handler, no address. And of the
style sheet: text at least 4.5:1 against paper, cards and badges, lines and areas 3:1, in both themes.
"""

import html.parser
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VOID = {"meta", "link", "br", "hr", "img", "input", "col", "wbr"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.open, self.problems, self.ids, self.wanted = [], [], [], []
        self.levels, self.title, self.lang = [], "", ""

    def say(self, text):
        self.problems.append(f"line {self.getpos()[0]}: {text}")

    def handle_starttag(self, tag, attrs):
        self.attributes(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        if tag not in {"path", "rect", "circle", "line", "polyline"} | VOID:
            self.say(f"<{tag}/> closes itself, which HTML does not know")
        self.attributes(tag, attrs)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.say(f"</{tag}> closes <{self.open[-1] if self.open else 'nothing'}>")
        elif tag:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "title":
            self.title += data
        if "<" in data or ">" in data and self.open[-1:] != ["style"]:
            self.say(f"a bare bracket in {data.strip()[:40]!r}")

    def attributes(self, tag, attrs):
        names = [name for name, _ in attrs]
        values = dict(attrs)
        if len(set(names)) != len(names):
            self.say(f"<{tag}> has an attribute twice")
        if tag in {"script", "iframe", "object", "embed", "img", "base", "form"}:
            self.say(f"<{tag}> has no place here")
        for name, value in attrs:
            if name.startswith("on"):
                self.say(f"a handler, {name}")
            if name in {"src", "href", "action", "xlink:href"} and not re.match(r"#|data:,$", value or ""):
                self.say(f"{name}={value} leads out of the page")
            if "url(" in (value or ""):
                self.say(f"a url() in {name}")
        if tag == "html":
            self.lang = values.get("lang", "")
        if "id" in values:
            self.ids.append(values["id"])
        if (values.get("href") or "").startswith("#"):
            self.wanted.append(values["href"][1:])
        self.wanted += (values.get("aria-labelledby") or "").split()
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "th" and values.get("scope") not in {"row", "col"}:
            self.say("a th without its scope")
        if tag == "svg" and values.get("aria-hidden") != "true" and not (values.get("role") == "img" and values.get("aria-label")):
            self.say("a picture without a name")
        if values.get("role") in {"img", "region"} and not values.get("aria-label"):
            self.say(f"role={values['role']} without a label")


def problems_of(text):
    page = Page()
    page.feed(text)
    page.close()
    found = page.problems
    if not text.startswith("<!DOCTYPE html>"):
        found.append("no doctype")
    if page.open:
        found.append(f"never closed: {page.open}")
    if not page.title.strip() or not page.lang:
        found.append("no title, or no language")
    found += [f"id {name} twice" for name in sorted(set(page.ids)) if page.ids.count(name) > 1]
    found += [f"nothing has the id {name}" for name in page.wanted if name not in page.ids]
    if page.levels[:1] != [1] or page.levels.count(1) != 1:
        found.append("it does not begin with its only h1")
    found += [f"an h{b} below an h{a}" for a, b in zip(page.levels, page.levels[1:]) if b > a + 1]
    found += [f"a url() in the style sheet" for _ in re.findall(r"url\(|@import", text)]
    return found


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def contrast_problems(css):
    themes = [dict(re.findall(r"--([\w]+):(#[0-9a-f]{3,6})\b", block)) for block in re.findall(r":root\{(.*?)\}", css, re.S)]
    assert len(themes) == 2, "a light and a dark theme"
    for name, theme in zip(("light", "dark"), themes):
        text = [(fore, back) for fore in ("ink", "soft", "link") for back in ("paper", "card")]
        text += [(kind, kind + "bg") for kind in ("good", "bad", "warn")] + [("s0", "paper")]  # s0: 16-bit dtypes
        areas = [f"s{i}" for i in range(6)] + ["flush", "subnormal", "normal", "overflow", "zero", "axis"]
        pairs = [(*pair, 4.5) for pair in text] + [(area, "paper", 3) for area in areas]
        for fore, back, least in pairs:
            ratio = contrast(theme[fore], theme[back])
            if ratio < least:
                yield f"{name}: --{fore} on --{back} is {ratio:.2f}:1, at least {least}:1"


def self_test():
    good = '<!DOCTYPE html>\n<html lang="en"><head><title>t</title></head><body><h1 id="a">x</h1></body></html>'
    assert problems_of(good) == [], problems_of(good)
    for old, new in (("</h1>", ""), ("<h1", "<h2"), ('lang="en"', ""), ("x<", "x<script></script><"), ("x<", 'x<a href="#b">y</a><'),
                     ("x<", 'x<svg></svg><'), ("x<", 'x</h1><h3 id="a">y</h3><h1><'), ("x<", 'x<a href="http://a">y</a><'),
                     ("<body>", '<body onload="f">'), ("x<", "x<table><tr><th>y</th></tr></table><")):
        assert problems_of(good.replace(old, new, 1)), f"{new} instead of {old} is not seen"
    assert round(contrast("#000", "#ffffff")) == 21


def main():
    self_test()
    files = [pathlib.Path(name) for name in sys.argv[1:]] or [ROOT / "tests/golden/report/page.html"]
    found = [f"tools/report/style.css: {text}" for text in contrast_problems((ROOT / "tools/report/style.css").read_text())]
    for file in files:
        found += [f"{file}: {text}" for text in problems_of(file.read_text(encoding="utf-8"))]
    print("\n".join(found + [f"page: {len(files)} looked at, {len(found)} wrong"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
