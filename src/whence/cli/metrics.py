"""`whence metrics`: what methods are judged by."""

from __future__ import annotations

import sys

from whence.cli.arguments import Debug, Json
from whence.cli.reporting import errors_reported, print_line, print_views


def metrics(as_json: Json = False, debug: Debug = False) -> None:
    """List what a board measures, by metric: what it says and which way is better."""
    with errors_reported(debug):
        from whence.metrics.table import METRICS
        from whence.render.metrics import metrics_view

        if not as_json:
            print_views([metrics_view()])
            return
        for name, metric in METRICS.items():
            about = {"name": name, "title": metric.title, "group": metric.group, "better": metric.better}
            print_line({**about, "sentence": metric.sentence, "of": metric.of, "version": metric.version})
        sys.stdout.flush()
