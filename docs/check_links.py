"""Look at a built site without a network: does every link lead somewhere, and does nothing come from elsewhere?

python docs/check_links.py build/site
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
"""What a browser fetches by itself, and where from."""


class Links(HTMLParser):
    """The links of a page, what it loads, and what may be linked to in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {str(given[name]) for name in ("id", "name") if given.get(name)}
        where = given.get(LOADED.get(tag, "")) if not (tag == "link" and given.get("rel") == "canonical") else None
        if where:
            self.loaded.append(where)
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


def broken(site: Path) -> Iterator[str]:
    """What is wrong with the links of a site, a line each."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        if name.name == "404.html":  # is shown at any address, so its links are absolute
            continue
        yield from (f"{name} loads {each} from the network" for each in page.loaded if urlsplit(each).netloc)
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name} links to {link}, which is not there"
            elif (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors | {"__top"}
            ):
                yield f"{name} links to {link}, which has no such part"


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    found = list(broken(folder))
    n_pages = len(list(folder.rglob("*.html")))
    print("\n".join([*found, f"{n_pages} pages, {len(found)} broken links"]))
    sys.exit(bool(found) or not n_pages)
