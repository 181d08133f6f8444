"""The manual as a site: built strictly, every link of it leads somewhere, and it can be searched from the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import playwright.sync_api
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from check_links import broken  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_links_lead_somewhere_and_nothing_comes_from_the_network(site: Path) -> None:
    assert list(broken(site)) == []
    assert (site / "guides" / "classifier.html").is_file()
    assert 'id="whence.ShapleyProbes.push_to_hub"' in (site / "reference" / "probes.html").read_text()


def test_the_link_check_can_fail(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="#top"></a><a href="b.html#there"></a><a href="c.html"></a><a href="b.html#no"></a>'
        '<script src="https://cdn.example/x.js"></script><a href="https://elsewhere.example"></a>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    assert list(broken(tmp_path)) == [
        "a.html loads https://cdn.example/x.js from the network",
        "a.html links to c.html, which is not there",
        "a.html links to b.html#no, which has no such part",
    ]


WIDTHS = {"phone": 390, "desktop": 1280}


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_the_site_is_searched_from_the_disk(site: Path, browser: playwright.sync_api.Browser, width: int) -> None:
    """From a file, without a network: search finds, and no page is wider than the screen."""
    context = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    if width == WIDTHS["phone"]:
        page.click("label.md-header__button[for=__search]")
    page.locator("input.md-search__input").press_sequentially("fingerprint")  # search listens to keys
    page.wait_for_selector(".md-search-result__item a", timeout=20_000)
    assert "Probes for my model" in page.inner_text(".md-search-result__list")
    for name in ("index", "guides/believe", "diffmask", "scoreboard", "reference/explaining", "reference/methods"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
    for name in ("diffmask", "decoded_saliency", "sparse_attention"):
        page.goto((site / f"{name}.html").as_uri())
        cut = "t => t.scrollWidth - t.parentElement.clientWidth"
        assert page.locator("table").first.evaluate(cut) <= 0, f"{name}: the verdicts are beyond the edge"
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    context.close()
