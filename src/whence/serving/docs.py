"""The schema of the API as a page that loads and runs nothing: the usual one comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from whence.serving.guard import NOTHING

_STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code { overflow-wrap: anywhere }
h2 { margin: 2rem 0 0; font-size: 1.1rem }
td, th { text-align: start; padding: 0.2rem 0.8rem 0.2rem 0; vertical-align: top }
td:first-child { font-weight: 600 }
@media (max-width: 40rem) {
  td { display: block; padding: 0; overflow-wrap: anywhere }
  td:first-child { padding-top: 0.6rem }
  td:nth-child(3):not(:empty)::before { content: "by default " }
  th { display: none }
}
"""
DOCS_POLICY = f"{NOTHING}; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"


def docs_page(schema: Mapping[str, Any]) -> str:
    """Every route with what it does and the fields of what it takes, then the parts that fields are made of."""
    kinds, told = schema["components"]["schemas"], dict[str, None]()
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>The API of whence</title><style>{_STYLE}</style></head><body><main><h1>The API of whence</h1>",
        '<p>As a schema: <a href="/openapi.json">/openapi.json</a>. An error is <code>{"problem": what is wrong, ',
        '"advice": what to do}</code>.</p>',
    ]
    for path, methods in schema["paths"].items():
        for method, about in methods.items():
            parts.append(f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>")
            parts.append(_sentence(about.get("description", "")))
            body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in body:
                parts.append(_fields(kinds[_named(body)]))
                told |= dict.fromkeys(_parts(kinds[_named(body)], kinds))
    for name in told:
        parts.append(f'<h2 id="{escape(name)}"><code>{escape(name)}</code></h2>')
        parts += [_sentence(kinds[name].get("description", "")), _fields(kinds[name])]
    return "".join([*parts, "</main></body></html>"])


def _fields(schema: Mapping[str, Any]) -> str:
    rows = []
    for name, field in schema["properties"].items():
        usual = "" if name in schema.get("required", ()) else json.dumps(field.get("default"))
        cells = (escape(name), " or ".join(_kinds(field)), escape(usual), _marked(field.get("description", "")))
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{head}</th>" for head in ("field", "what", "by default", ""))
    return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _kinds(field: Mapping[str, Any]) -> list[str]:
    if "anyOf" in field:
        return [kind for each in field["anyOf"] for kind in _kinds(each)]
    if "enum" in field:
        return [escape(json.dumps(value)) for value in field["enum"]]
    if "$ref" in field:
        return [f'<a href="#{escape(_named(field))}">{escape(_named(field))}</a>']
    if "items" in field:
        return [f"list of {' or '.join(_kinds(field['items']))}"]
    return [escape(field.get("type", "anything"))]


def _parts(schema: Any, kinds: Mapping[str, Any]) -> Iterator[str]:
    """Names of what a schema refers to, and of what that does."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield _named(schema)
            yield from _parts(kinds[_named(schema)], kinds)
        for each in schema.values():
            yield from _parts(each, kinds)
    elif isinstance(schema, list):
        for each in schema:
            yield from _parts(each, kinds)


def _named(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _sentence(words: str) -> str:
    return f"<p>{_marked(words)}</p>"


def _marked(words: str) -> str:
    """Names between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))
