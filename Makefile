# What the README tells to type. It needs Python 3.11 or newer, a C++ compiler and make; uv, where it is installed, makes
# the environment in seconds.
PYTHON ?= python3
BIN = .venv/bin
UV := $(shell command -v uv)
ifdef UV
  VENV = uv venv --quiet --allow-existing --python $(PYTHON) .venv
  INSTALL = VIRTUAL_ENV=.venv uv pip install --quiet -c constraints.txt
else
  VENV = $(PYTHON) -m venv .venv
  INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
endif
# tests run side by side, as many files at a time as there are cores
PYTEST = $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile

.PHONY: demo quick test test-all newest setup inputs pull publish closures docs docs-pages gpu-campaign

# everything from a bare clone to figures, claims and report
demo: inputs
	@echo "Running the demo: minutes on two cores; results go to results/demo/"
	$(BIN)/snakemake --cores all --resources gpu=1
	@echo "Open results/demo/report/report.html"

# under a minute: nothing that runs a workflow
quick: .venv/.tests inputs
	$(PYTEST) -m "not workflow and not slow and not more and not browser and not slurm and not long"

# minutes: the numbers against brute force, closed forms and fairseq, one whole run, dvc.yaml, lint, types, architecture
test: .venv/.tests inputs
	$(PYTEST)

# the rest: artefacts under DVC, other arithmetic, hostile input, fuzzing; browser and SLURM where they are installed
test-all: .venv/.tests inputs
	$(PYTEST) -m "(more or browser or slurm) and not long"

# the published results of the demo run, and what is rebuilt here because it shows text: a minute, and nothing is due
pull: setup
	$(BIN)/dvc pull
	$(BIN)/ff-memories restore

# record a finished demo run and make artefacts/ hold that run alone; then commit artefacts/ and dvc.lock
publish: setup
	$(BIN)/ff-memories adopt
	$(BIN)/dvc push
	$(BIN)/dvc gc --workspace --cloud --force --quiet
	@du --apparent-size -sm artefacts | awk '{ print $$1 " MB in artefacts/, 40 at most"; exit $$1 > 40 }'

# the documentation as a site for the browser, site/index.html, with the demo run where it is finished; TEXT=no leaves out
# what quotes the demo's text, for a site that others will read
TEXT ?= yes
docs: .venv/.docs inputs
	TEXT=$(TEXT) OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html"

# the pages of the documentation that follow from the package, and from what is kept in docs/data
docs-pages: .venv/.tests
	for page in commands config deviations readme steps; do $(BIN)/python docs/tools/$$page.py || exit 1; done
	$(BIN)/python -m campaigns.page

# all that needs a GPU: tests, benchmark, precisions, rehearsal; 40 minutes of one, in parts that can be taken up again
gpu-campaign: .venv/.tests inputs
	$(BIN)/python -m campaigns.gpu

# which sources make which step due; tests/workflow/test_closures.py compares
closures: .venv/.tests
	PYTHONPATH=tests/tools $(BIN)/python tests/workflow/test_closures.py > tests/data/closures.txt

# the demo run's model and dictionary, from the remote inside the repository
inputs: setup
	@$(BIN)/dvc pull --quiet data/demo/model.pt data/demo/dict.txt

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@echo "Making the environment .venv: a minute or two"
	$(VENV)
	$(INSTALL) -e .
	touch $@

# the tests also cover the optional segmenter, the site, and the checks of style and types
.venv/.tests: .venv/.ready
	@echo "Adding what the tests need"
	$(INSTALL) -e '.[spacy,docs,dev]'
	touch $@

.venv/.docs: .venv/.ready
	@echo "Adding what the site needs"
	$(INSTALL) -e '.[docs]'
	touch $@

# what the next upgrade will meet: the tests with the newest release of everything, in an environment of its own; what
# differs from the lock is said before, what breaks after them
NEWEST = .venv-newest/bin
newest:
	$(PYTHON) -m venv --clear .venv-newest
	$(NEWEST)/python -m pip install --quiet -e '.[spacy,docs,dev]'
	$(NEWEST)/python -m pip install --quiet --upgrade dvc snakemake torch
	$(NEWEST)/dvc pull --quiet data/demo/model.pt data/demo/dict.txt
	$(NEWEST)/python -c "from ff_memories.workflow.environment import *; print(*differences(pins()))"
	$(NEWEST)/python -m pytest -n logical --dist loadfile -m 'not browser and not long and not slurm and not locked'
