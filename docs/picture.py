"""Makes the picture of the README: a real run of a model, explained by three methods, as a browser shows the page.

python docs/picture.py [--model FOLDER_OR_HUB_ID] [--out docs/report.png]

Needs Chromium and the `dev` extra.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import whence
from whence.files import write_whole
from whence.models.layered import Layers
from whence.render.page import page

SENTENCE = "I wanted to love this film, but the story never comes alive."
METHODS: dict[str, Layers] = {"integrated_gradients": "all", "grad_cam": "all", "leave_one_out": "embeddings"}
MOST_BYTES = 300_000

arguments = argparse.ArgumentParser(description="Make the picture of the README.")
arguments.add_argument("--model", help="a folder or a hub id; by default the embedded model")
arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "report.png")
given = arguments.parse_args()

model = whence.load() if given.model is None else whence.load(given.model)
explanations = [
    whence.explain(model, SENTENCE, method=method, layers=layers, scale="probability")
    for method, layers in METHODS.items()
]

with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
    file = Path(folder) / "report.html"
    write_whole(page(explanations), file)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
    for scale in (2, 1.5, 1):
        tab = browser.new_page(
            viewport={"width": 1280, "height": 900}, device_scale_factor=scale, color_scheme="light",
            reduced_motion="reduce",
        )  # fmt: skip
        tab.goto(file.as_uri())
        end = tab.eval_on_selector("#map", "map => map.getBoundingClientRect().bottom + 10")
        picture = tab.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": 1280, "height": end})
        tab.close()
        if len(picture) <= MOST_BYTES:
            break
    browser.close()

given.out.write_bytes(picture)
print(f"{given.out}: {len(picture):,} bytes")
assert len(picture) <= MOST_BYTES
