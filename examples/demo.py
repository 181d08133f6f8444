"""The two-minute tour: a model that ships with whence, a sentence that is easy to get wrong, and what decides it.

make demo
"""

from pathlib import Path

from rich.console import Console
from rich.rule import Rule

import whence

SENTENCE = "Not the worst film of the year, but I expected to love it and I didn't."

console = Console()
model = whence.load()

console.print(Rule("1. Which words does the decision rest on?"))
console.print(whence.explain(model, SENTENCE, method="integrated_gradients"))

console.print(Rule("2. At which layer was that settled?"))
console.print(whence.explain(model, SENTENCE, method="integrated_gradients", layers="all"))

console.print(Rule("3. Is there another way to see it? The same word, taken away"))
explanation = whence.explain(model, SENTENCE, method="leave_one_out", scale="probability")
console.print(explanation)

saved = Path("demo-explanation.json")
explanation.save(saved)
assert whence.Explanation.load(saved) == explanation

console.print(Rule("Next"))
console.print("Your own text:    .venv/bin/whence explain 'your text'", highlight=False)
console.print("Your own model:   .venv/bin/whence explain 'your text' --model FOLDER_OR_HUB_ID", highlight=False)
console.print("Other methods:    .venv/bin/whence methods", highlight=False)
console.print(
    "Side by side:     .venv/bin/whence compare 'your text' --methods shapley,lime,attention", highlight=False
)
console.print(f"The last explanation is in {saved}; read it back with whence.Explanation.load.", highlight=False)
