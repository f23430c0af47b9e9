#!/usr/bin/env python3
"""A report in a real browser: report_in_browser.py BUILD [FILE...] [--pictures DIR]

Trains a tiny run (or takes the pages FILE...) and shows its report in headless Chromium at 360 and at 1280 px, light and
dark, with scripts off and everything folded open. A console message, a request to anywhere, a page that scrolls sideways
or text that leaves its box fails. So does a picture (--svg of the verbs, FILE.svg) a label of which is cut at its edge or
lies on another. --pictures keeps the screenshots. Without Chromium (tools/setup --browser) this says so and exits 77.

Chromium is spoken to by its own protocol, over a pipe: no driver is needed.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WIDTHS = (360, 1280)
THEMES = ("light", "dark")
# What sticks out of the page, or of a box that does not scroll by itself.
OVERFLOW = """(() => {
  const out = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) out.push(`the page is ${root.scrollWidth} wide, the window ${root.clientWidth}`);
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg, .wide') && !e.matches('.wide')) continue;
    const box = e.getBoundingClientRect();
    if (box.right > root.clientWidth + 0.5 || box.left < -0.5)
      out.push(`<${e.tagName.toLowerCase()} class="${e.getAttribute('class') || ''}"> ${e.textContent.trim().slice(0, 30)}`);
  }
  return out.slice(0, 5);
})()"""
OPEN = "document.querySelectorAll('details').forEach(e => e.open = true); document.documentElement.scrollHeight"
# Labels of an axis that lie on each other.
COLLISIONS = """(() => {
  const out = [];
  for (const axis of document.querySelectorAll('.rows, .columns')) {
    const boxes = [...axis.querySelectorAll('span')].map(e => [e.getBoundingClientRect(), e.textContent]);
    for (let i = 0; i < boxes.length; ++i) for (let j = 0; j < i; ++j) {
      const [a, b] = [boxes[i][0], boxes[j][0]];
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
        out.push(`the ticks ${boxes[j][1]} and ${boxes[i][1]} lie on each other`);
    }
  }
  return out.slice(0, 5);
})()"""


# Labels of a picture that leave its paper, are cut by its plot, or lie on each other. A line of text is less tall than its box.
LABELS = """(() => {
  const out = [], paper = document.documentElement.getBoundingClientRect();
  const texts = [...document.querySelectorAll('text')].filter(e => e.textContent);
  const boxes = texts.map(e => [e.getBoundingClientRect(), e.textContent]);
  if (!texts.length) out.push('no text');
  for (const e of texts) if (e.parentElement !== document.documentElement) out.push(`${e.textContent} stands where the plot cuts`);
  for (const [a, text] of boxes) {
    if (text === '2^-0') out.push(text);
    if (a.left < paper.left || a.right > paper.right || a.top < paper.top || a.bottom > paper.bottom)
      out.push(`${text} is cut at the edge`);
  }
  for (let i = 0; i < boxes.length; ++i) for (let j = 0; j < i; ++j) {
    const [a, b] = [boxes[i][0], boxes[j][0]];
    if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom - 2 && b.top + 2 < a.bottom - 2)
      out.push(`${boxes[j][1]} and ${boxes[i][1]} lie on each other`);
  }
  return out.slice(0, 5);
})()"""


class Chromium:
    """A browser, and what its one tab said and asked for."""

    def __init__(self, program):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        self.profile = tempfile.TemporaryDirectory()

        def take_pipes():  # the protocol's are 3 and 4
            taken = [os.dup(to_browser), os.dup(from_browser)]
            os.dup2(taken[0], 3, inheritable=True)
            os.dup2(taken[1], 4, inheritable=True)

        command = [program, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
                   "--hide-scrollbars", f"--user-data-dir={self.profile.name}"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium has none for root
        self.process = subprocess.Popen(command, preexec_fn=take_pipes, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.count, self.events = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.rest:
            piece = os.read(self.read_end, 1 << 16)
            if not piece:
                raise SystemExit("chromium ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        while True:
            for event in self.events:
                if event.get("method") == method:
                    return
            self.events.append(self.receive())

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def show(self, url, width, theme):
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def pictures(self, width, height, slice_height=1500):
        """The page in slices that one can look at."""
        for top in range(0, height, slice_height):
            clip = {"x": 0, "y": top, "width": width, "height": min(slice_height, height - top), "scale": 1}
            yield base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])

    def close(self):
        self.call("Browser.close")
        self.process.wait(timeout=20)
        self.profile.cleanup()


def heard(events, url):
    """Console messages, log entries, exceptions, requests for anything but the page and data: addresses."""
    for event in events:
        method, what = event.get("method", ""), event.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            yield f"the console says {json.dumps(what)[:300]}"
        if method == "Network.requestWillBeSent":
            asked = what["request"]["url"]
            if asked != url and not asked.startswith("data:"):
                yield f"it asks for {asked}"


def look(browser, page, pictures):
    url, problems = page.resolve().as_uri(), []
    for width in WIDTHS:
        for theme in THEMES:
            browser.show(url, width, theme)
            height = browser.evaluate(OPEN)
            found = list(heard(browser.events, url)) + browser.evaluate(OVERFLOW) + browser.evaluate(COLLISIONS)
            if browser.evaluate(f"matchMedia('(prefers-color-scheme: {theme})').matches") is not True:
                found.append("the theme is not there")
            problems += [f"{page.name}, {width} px, {theme}: {text}" for text in found]
            if pictures:
                for number, picture in enumerate(browser.pictures(width, height)):
                    (pictures / f"{page.stem}-{width}-{theme}-{number}.png").write_bytes(picture)
    return problems


def look_at_picture(browser, picture, pictures):
    url, problems = picture.resolve().as_uri(), []
    for width in WIDTHS:
        browser.show(url, width, "light")
        problems += [f"{picture.name}, {width} px: {text}" for text in browser.evaluate(LABELS)]
        if pictures:
            (pictures / f"{picture.stem}-{width}.png").write_bytes(next(browser.pictures(max(width, 760), 700)))
    return problems


def drawings(program, folder):
    """A picture of each verb that draws, and of cases that are known to be narrow."""
    made = []

    def draw(name, *words):
        made.append(folder / f"{name}.svg")
        subprocess.run([program, *words, "--svg", str(made[-1])], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    config, run = str(folder / "tiny.json"), str(folder / "tiny-fp16")
    draw("formats", "teach", "formats")
    draw("formats-scaled", "teach", "formats", "--scale", "65536")
    draw("swallow", "teach", "swallow", "--dtype", "bf16", "--weight", "60000", "--update", "1e-7", "--steps", "100000")
    draw("accumulate", "teach", "accumulate", "--dtype", "bf16")
    draw("break", "teach", "break", "--softmax-fp16")
    for dtype in ("fp16", "bf16"):
        draw(f"histogram-{dtype}", "inspect", "histogram", config, "--set", f"amp.dtype={dtype}", "--step", "2")
    draw("memory", "inspect", "memory", config, "--amp", "off,bf16,fp16")
    draw("compare", "inspect", "compare", config, "--a", "fp32", "--b", "fp16", "--steps", "3")
    draw("scale", "inspect", "scale", run)
    draw("scale-flushed", "inspect", "scale", run, "--flushed")
    return made


def tiny_run(program, folder):
    """An fp16 run whose first steps overflow, in folder/tiny-fp16, of folder/tiny.json."""
    sample = pathlib.Path(__file__).resolve().parent.parent / "tools/sample/data"
    config = {"task": {"data_dir": str(sample)}, "tokenizer": {"vocab": str(sample / "vocab.txt"), "max_length": 32},
              "model": {"config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}},
              "optimizer": {"learning_rate": 2e-3},
              "trainer": {"num_train_epochs": 2, "per_device_train_batch_size": 8, "logging_steps": 1, "eval_strategy": "steps", "eval_steps": 15},
              "amp": {"dtype": "fp16", "init_scale": 16777216}}
    (folder / "tiny.json").write_text(json.dumps(config))
    run = folder / "tiny-fp16"
    subprocess.run([program, "train", str(folder / "tiny.json"), "-q", "-s", str(run)], check=True)
    subprocess.run([program, "report", str(run)], check=True, stderr=subprocess.DEVNULL)
    return run / "report.html"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("pages", type=pathlib.Path, nargs="*")
    parser.add_argument("--pictures", type=pathlib.Path)
    arguments = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("skipped: no chromium; tools/setup --browser installs it")
        return 77
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pages = arguments.pages
        if not pages:
            mixtape = str(arguments.build.resolve() / "bin/mixtape")
            pages = [tiny_run(mixtape, pathlib.Path(folder)), *drawings(mixtape, pathlib.Path(folder))]
        browser = Chromium(program)
        problems = [text for page in pages
                    for text in (look_at_picture if page.suffix == ".svg" else look)(browser, page, arguments.pictures)]
        # That the looking sees: a page that does all that is forbidden.
        bad = pathlib.Path(folder) / "bad.html"
        bad.write_text("<!DOCTYPE html><title>bad</title><link rel=stylesheet href='http://127.0.0.1:9/a.css'>"
                       "<p style='width:2000px'>wide</p>")
        narrow = bad.with_suffix(".svg")
        narrow.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90"><text x="1" y="20" text-anchor="middle">cut'
                          '</text><text x="30" y="60">one</text><text x="40" y="60">two</text></svg>')
        seen = "\n".join(look(browser, bad, None) + look_at_picture(browser, narrow, None))
        browser.close()
        for word in ("it asks for http://127.0.0.1:9/a.css", "the console says", "the page is 2008", "cut is cut at the edge",
                     "one and two lie on each other"):
            if word not in seen:
                problems.append(f"the check does not see a fault: {word} is missing in {seen!r}")
    print("\n".join(problems + [f"browser: {len(pages)} pages and pictures at {len(WIDTHS)} widths in {len(THEMES)} themes, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
