# Two commands on a fresh machine with only Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test check lint types types-of-scripts check-pages docs notebooks bench clean

demo: $(READY)
	$(BIN)/python examples/demo.py

# One process more than there are cores: a fifth of the time tests wait, for browsers and for processes that they start.
# Work is stolen, not dealt out: the tests of a file stay together, and what they share is made once.
test: $(READY)
	$(BIN)/python -m pytest --dist worksteal -n $$($(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')

# One call of mypy per folder: scripts import their neighbours by flat names, and several folders have a figures.py.
SCRIPTS := tests benchmarks training examples docs $(wildcard experiments/*/)
check: lint types types-of-scripts check-pages docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

types-of-scripts: $(READY)
	@for folder in $(SCRIPTS); do echo "mypy $$folder"; $(BIN)/mypy --config-file mypy-scripts.ini $$folder || exit 1; done

# The scripts of the pages; the tool comes from the npm registry, and where it cannot come the check says so.
BIOME := npx --yes @biomejs/biome@2.6.6
check-pages:
	@if $(BIOME) --version >/dev/null 2>&1; then $(BIOME) check --error-on-warnings src/whence/render/pages; \
	else echo "note: the scripts of the pages were not checked: npx cannot run @biomejs/biome here"; fi

# The manual, into build/site. NO_MKDOCS_2_WARNING: material's word on a version that is not used here.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/check_links.py build/site

# The notebooks' outputs, made anew where they lie.
notebooks: $(READY)
	$(BIN)/python examples/run_notebooks.py

bench: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/attribution.py --out benchmarks/results/attribution-cpu.json
	$(BIN)/python benchmarks/decoded.py --out benchmarks/results/decoded-cpu.json
	$(BIN)/python benchmarks/games.py --out benchmarks/results/games-cpu.json
	$(BIN)/python benchmarks/diffmask.py --out benchmarks/results/diffmask-cpu.json
	$(BIN)/python benchmarks/one_pass.py --out benchmarks/results/one_pass-cpu.json
	$(BIN)/python benchmarks/serve.py --out benchmarks/results/serve.json
	$(BIN)/python benchmarks/start.py --out benchmarks/results/start.json
	$(BIN)/python benchmarks/write_readme.py

clean:
	rm -rf .venv

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "whence needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	touch $(READY)
