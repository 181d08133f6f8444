"""`whence methods`: what there is to choose from."""

from __future__ import annotations

import sys

from whence.cli.arguments import Debug, Json
from whence.cli.reporting import errors_reported, print_line, print_views


def methods(as_json: Json = False, debug: Debug = False) -> None:
    """List what scores say, need and cost, by method."""
    with errors_reported(debug):
        from whence.methods import METHODS
        from whence.methods.presets import PRESETS
        from whence.render.terminal import methods_view

        if not as_json:
            print_views([methods_view()])
            return
        for name, method in METHODS.items():
            needs = ", ".join(method.needs) or "nothing"
            about = {"name": name, "kind": "method", "meaning": vars(method.meaning), "needs": needs}
            print_line({**about, "cost": method.cost, "layers": method.layers, "options": method.options})
        for name, preset in PRESETS.items():
            print_line({"name": name, "kind": "preset", **vars(preset)})
        sys.stdout.flush()
