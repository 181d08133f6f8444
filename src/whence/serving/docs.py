"""The schema of the API as a page that loads and runs nothing: the usual one comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

from whence.serving.guard import NOTHING

_STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code { overflow-wrap: anywhere }
h2 { margin: 2rem 0 0; font-size: 1.1rem }
td, th { text-align: start; padding: 0.2rem 0.8rem 0.2rem 0; vertical-align: top }
"""
DOCS_POLICY = f"{NOTHING}; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"


def docs_page(schema: Mapping[str, Any]) -> str:
    """Every route with what it does and the fields of what it takes."""
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
            parts.append(f"<p>{escape(about.get('description', ''))}</p>")
            body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in body:
                parts.append(_fields(schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]))
    return "".join([*parts, "</main></body></html>"])


def _fields(schema: Mapping[str, Any]) -> str:
    rows = []
    for name, field in schema["properties"].items():
        usual = "" if name in schema.get("required", ()) else json.dumps(field.get("default"))
        cells = (name, " or ".join(_kinds(field)), usual, field.get("description", ""))
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{head}</th>" for head in ("field", "what", "by default", ""))
    return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _kinds(field: Mapping[str, Any]) -> list[str]:
    if "anyOf" in field:
        return [kind for each in field["anyOf"] for kind in _kinds(each)]
    if "enum" in field:
        return [json.dumps(value) for value in field["enum"]]
    if "$ref" in field:
        return [str(field["$ref"].rpartition("/")[2])]
    if "items" in field:
        return [f"list of {' or '.join(_kinds(field['items']))}"]
    return [str(field.get("type", "anything"))]
