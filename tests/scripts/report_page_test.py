#!/usr/bin/env python3
"""What a browser makes of `zero_launch report`. Skipped (77) where there is no Chromium.

    tests/scripts/report_page_test.py build/bin/zero_launch [FOLDER]

With a FOLDER the pages and pictures of them stay there, to be looked at.
"""

import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if not BROWSER:
    print("skipped: there is no chromium, chromium-browser or google-chrome")
    sys.exit(77)

# Asked in the page when all of it stands; the answers are the text of it, or of the page around it.
QUESTIONS = """
addEventListener("load", () => {
  const area = document.querySelector(".area"), box = area.getBoundingClientRect();
  area.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width * 0.3, clientY: box.top + 9}));
  const visible = (element) => element.getBoundingClientRect().height > 0;
  const answers = JSON.stringify({
    width: innerWidth, wide: document.documentElement.scrollWidth, errors: window.errors, told: area.querySelector("output").textContent,
    charts: [...document.querySelectorAll(".chart")].map((c) => c.querySelector("b").textContent),
    lines: [...document.querySelectorAll("path.line")].map((p) => p.getBoundingClientRect().width),
    text: Math.min(...[...document.querySelectorAll("p, td, dd, dt, .area span, figcaption")].filter(visible)
                   .map((e) => parseFloat(getComputedStyle(e).fontSize))),
    colours: [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color],
    titles: [...document.querySelectorAll(".of-x, .of-y")].map((e) => e.textContent),
    tiles: Math.max(...[...document.querySelectorAll(".tiles div")].map((e) => e.getBoundingClientRect().bottom))
           === document.querySelector(".tiles div:last-child").getBoundingClientRect().bottom
           && Math.abs(document.querySelector(".tiles").getBoundingClientRect().right
                       - document.querySelector(".tiles div:last-child").getBoundingClientRect().right) < 2,
    scripts: document.scripts.length, injected: window.injected === true,
    shifted: [...document.querySelectorAll(".area")].filter((e) =>  // lines beside their labels
      Math.abs(e.getBoundingClientRect().top - e.querySelector("svg").getBoundingClientRect().top) > 1).length,
    outside: [...document.querySelectorAll(".area span")].filter((e) => {
      const label = e.getBoundingClientRect();
      return label.left < 0 || label.right > innerWidth + 1; }).length,
  });
  if (parent === window) document.body.textContent = answers; else parent.postMessage(answers, "*");
});
"""
EVIL = '</script><script>window.injected = true</script><img src=x onerror="window.injected = true">'


def records(num_steps, fp16=False, seed=0):
    """A run that never was: its loss falls, with a spike; it went on once, and skipped a step."""
    pick = random.Random(seed)
    yield {"type": "run", "world": {"size": 4, "threads": 2, "adam_threads": 2, "parameters": 124439808, "units": 14,
                                    "device": "CPU", "hosts": {"left": 2, EVIL: 2}},
           "family": "gpt2", "activations": 3 << 28,
           "memory": [{"owner": owner, "tier": "host", "bytes": size << 20} for owner, size in
                      (("masters", 119), ("exp_avg", 119), ("exp_avg_sq", 119), ("gather ring", 54))],
           "config": {"steps": num_steps, "lr": 6e-4, "schedule": "cosine", "dtype": "fp16" if fp16 else "fp32", "data": [EVIL]},
           "wall": 1.7954e9}
    for step in range(1, num_steps + 1):
        part = step / num_steps
        if step == num_steps // 2:
            yield {"type": "run", "world": {"size": 2, "threads": 2}, "config": {"steps": num_steps, "lr": 6e-4}, "wall": 1.7955e9}
            yield {"type": "resume", "step": step - 1}
            yield {"type": "step", "step": step - 1, "loss": None, "skipped": True}
        loss = 3 + 7.8 * math.exp(-12 * part) - 0.4 * part + pick.gauss(0, 0.12) + 2 * (step == num_steps * 2 // 3)
        seconds = 0.5 * (1 + 0.1 * pick.random())
        record = {"type": "step", "step": step, "loss": loss, "grad_norm": 0.4 * math.exp(pick.gauss(0, 0.4)) + 3 * (part < 0.01),
                  "lr": 6e-4 * min(part * 20, 0.5 + 0.5 * math.cos(math.pi * part)), "tokens": 32768, "seconds": seconds,
                  "tokens_per_second": 32768 / seconds, "host_bytes_free": int((20 + pick.random()) * (1 << 30)), "wall": 1.7956e9}
        if fp16:
            record["loss_scale"] = 2.0 ** (10 + step * 6 // num_steps)
        yield record
        if step % max(num_steps // 10, 1) == 0:
            yield {"type": "eval", "step": step, "loss": loss + 0.1}
            yield {"type": "sample", "step": step, "prompt": EVIL, "text": " and the rest\n" * 3}
    yield {"type": "end", "step": num_steps, "wall": 1.7956e9}


def pixels(path):
    """Of a PNG: width, height, and the rows of its bytes after their filters."""
    data, at, parts = path.read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", data, at + 8)
        if kind == b"IDAT":
            parts += data[at + 8:at + 8 + size]
        at += size + 12
    return width, height, zlib.decompress(parts)


class ReportPageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(KEPT or folder.name)

    def report(self, name, log):
        run = self.path / name
        run.mkdir(exist_ok=True)
        (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
        result = subprocess.run([PROGRAM, "report", "--from", run], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run / "report.html"

    def browse(self, page, *flags):
        with tempfile.TemporaryDirectory() as profile:
            result = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                                     f"--user-data-dir={profile}", *flags, page.as_uri()], capture_output=True, text=True,
                                    timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def ask(self, page, width, *flags):
        """What the page says of itself, with questions put into a copy."""
        text = page.read_text()
        before = "<script>window.errors = []; addEventListener('error', (e) => errors.push(e.message));" \
                 "addEventListener('securitypolicyviolation', (e) => errors.push(e.blockedURI));</script>"
        asked = page.with_name("asked.html")
        asked.write_text(text.replace("<head>", "<head>" + before).replace("</body>", f"<script>{QUESTIONS}</script></body>"))
        # A frame, as no window is as narrow as a phone.
        frame = page.with_name("frame.html")
        frame.write_text('<script>addEventListener("message", (e) => { document.body.textContent = e.data; });</script>'
                         f'<iframe src="asked.html" style="border:0;width:{width}px;height:900px"></iframe>')
        out = self.browse(asked if width > 500 else frame, "--dump-dom", f"--window-size={max(width, 600)},900",
                          "--virtual-time-budget=9000", *flags)
        asked.unlink(), frame.unlink()
        return out

    def answers(self, page, width, *flags):
        out = self.ask(page, width, *flags)
        found = re.search(r"<body[^>]*>(\{.*\})</body>", out, re.DOTALL)
        self.assertTrue(found, out[:2000])
        answers = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        self.assertEqual(answers["errors"], [])
        self.assertEqual(answers["width"], width)
        self.assertFalse(answers["injected"])
        self.assertEqual(answers["outside"], 0)
        self.assertEqual(answers["shifted"], 0)
        self.assertLessEqual(answers["wide"], answers["width"])
        self.assertGreaterEqual(answers["text"], 10)
        for across in answers["lines"]:
            self.assertGreater(across, 0.2 * width)
        return answers

    def picture(self, page, name, width, height, *flags):
        path = page.with_name(name)
        self.browse(page, f"--screenshot={path}", f"--window-size={width},{height}", *flags)
        found_width, found_height, data = pixels(path)
        self.assertEqual((found_width, found_height), (width, height))
        self.assertGreater(len(set(data)), 20, "a page of one colour")
        return path

    def test_a_short_run(self):
        page = self.report("short", records(10))
        answers = self.answers(page, 1200)
        self.assertEqual(answers["charts"], ["Loss", "Gradient norm", "Learning rate", "Tokens per second", "Free memory"])
        self.assertRegex(answers["told"], r"^step \d\ntraining [\d.]+\nevaluation [\d.]+$")
        self.picture(page, "light.png", 1200, 2600)

    def test_a_long_run(self):
        page = self.report("long", records(100_000, fp16=True))
        self.assertLess(page.stat().st_size, 700_000)
        answers = self.answers(page, 1200)
        self.assertEqual(answers["charts"][-1], "Loss scale")
        self.assertRegex(answers["told"], r"^step [23]\d,\d{3}\ntraining [\d.]+\naverage of about 2,000 steps \(exponential\) [\d.]+\nevaluation ")
        self.picture(page, "light.png", 1200, 2600)

    def test_in_the_dark(self):
        page = self.report("dark", records(300))
        light = self.answers(page, 1200)["colours"]
        dark = self.answers(page, 1200, "--blink-settings=preferredColorScheme=0")["colours"]
        self.assertEqual(light, ["rgb(255, 255, 255)", "rgb(28, 30, 33)"])
        self.assertEqual(dark, ["rgb(21, 23, 26)", "rgb(230, 231, 233)"])
        self.picture(page, "dark.png", 1200, 2600, "--blink-settings=preferredColorScheme=0")

    def test_on_a_phone(self):
        page = self.report("phone", records(300, fp16=True))
        answers = self.answers(page, 360)
        self.assertEqual(len(answers["charts"]), 6)
        self.assertTrue(answers["tiles"], "the last tile ends where the row does")
        self.assertEqual(answers["titles"][:4], ["step", "loss", "step", "norm"])

    def test_two_runs(self):
        for name, steps in (("one", 300), ("other", 200)):
            self.report(name, records(steps, seed=steps))
        page = self.path / "both.html"
        subprocess.run([PROGRAM, "report", self.path / "one", self.path / "other", "--to", page], check=True, capture_output=True)
        self.assertIn("<h1>one and other</h1>", page.read_text())
        self.picture(page, "both.png", 1200, 1600)

    def test_on_paper(self):
        page = self.report("paper", records(300))
        path = page.with_name("report.pdf")
        self.browse(page, f"--print-to-pdf={path}", "--no-pdf-header-footer")
        self.assertTrue(path.read_bytes().startswith(b"%PDF"))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    KEPT = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
    unittest.main()
