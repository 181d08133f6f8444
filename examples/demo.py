"""The two-minute tour: a model that ships with whence, a sentence that is easy to get wrong, and what decides it.

make demo
"""

from pathlib import Path

from rich.console import Console
from rich.rule import Rule

import whence
from whence.files import write_whole
from whence.render.page import page

SENTENCE = "I wanted to love this film, but the story never comes alive."
PAGE = Path("demo-report.html")

console = Console(highlight=False)
model = whence.load()

console.print(Rule("1. Which words does the decision rest on?"))
removed = whence.explain(model, SENTENCE, method="leave_one_out", scale="probability")
console.print(removed)

console.print(Rule("2. At which layer was that settled?"))
settled = whence.explain(model, SENTENCE, method="integrated_gradients", layers="all", scale="probability")
console.print(settled)

at_once = whence.explain(model, SENTENCE, method="grad_cam", scale="probability")
write_whole(page([settled, at_once, removed]), PAGE)
removed.save("demo-explanation.json")

console.print(Rule("3. The same as a page, with two more methods beside it"))
console.print(f"Open {PAGE.absolute()} in a browser.", soft_wrap=True)
console.print("The first explanation is in demo-explanation.json; whence.Explanation.load reads it back.")
console.print(Rule("Next"))
console.print("Your own text:    .venv/bin/whence explain 'your text'")
console.print("Your own model:   .venv/bin/whence explain 'your text' --model FOLDER_OR_HUB_ID")
console.print("Other methods:    .venv/bin/whence methods")
console.print("Side by side:     .venv/bin/whence compare 'your text' --methods shapley,lime,attention --html why.html")
