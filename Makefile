# The commands of the README. They need Python 3.11 to 3.13 and make; `make test` also needs a C++ compiler, for fairseq.
# If uv is installed, it makes the environment in seconds.
PYTHON ?= python3
BIN = .venv/bin
LOCK = workflow/envs/constraints.txt
MODELS = $(wildcard data/*.dvc data/*/*.dvc)
UV := $(shell command -v uv)
ifdef UV
  VENV = uv venv --quiet --allow-existing --seed --python $(PYTHON)
  INSTALL = VIRTUAL_ENV=.venv uv pip install --quiet -c $(LOCK)
else
  CHECK = import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit("Python 3.11 to 3.13 is needed: give PYTHON=python3.12")
  VENV = $(PYTHON) -c '$(CHECK)' && $(PYTHON) -m venv
  INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(LOCK)
  WHEELS = --use-pep517
endif
# run test files in parallel, one per core
PYTEST = $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile

QUICK = --hypothesis-profile quick -m "not workflow and not slow and not more and not browser and not slurm and not long"

.PHONY: demo quick slow test test-all lint newest setup inputs models pull publish wheel release generated docs docs-pages gpu-campaign

# the recorded run that `make demo`, `make pull` and `make publish` are about: demo, smollm2, qwen, stories15m or
# stories15m-stories; `make demo` also takes demo-gpt2 and demo-llama, which are not recorded
RUN ?= demo
READY = .venv/.ready
ifeq ($(RUN),demo)
  PIPELINE = dvc.yaml
  INPUTS = data/demo/model.pt.dvc data/demo/dict.txt.dvc
else
  PIPELINE = runs/$(RUN)/dvc.yaml
  CONFIG = --configfile config/$(RUN).yaml
  LOOK = @grep -qxs '!/$(RUN)/' runs/.dvcignore || echo '!/$(RUN)/' >> runs/.dvcignore
  INPUTS = $(wildcard data/$(RUN).dvc)
  ifeq ($(INPUTS),)
    READY = .venv/.wikipedia
  endif
endif
RECORDED = $(filter-out demo,$(notdir $(patsubst %/dvc.yaml,%,$(wildcard runs/*/dvc.yaml))))

# run everything, from a bare clone to figures, claims and report
demo: inputs
	@echo "Running $(RUN), which takes minutes on two cores; results go to results/$(RUN)/"
	$(BIN)/snakemake --cores all --resources gpu=1 $(CONFIG)
	@echo "Open results/$(RUN)/report/report.html"

# run the fast tests in half a minute; none of them runs a workflow
quick: .venv/.tests models
	$(PYTEST) $(QUICK)

# measure which of the main tests are slow, for `make quick`
slow: .venv/.tests models
	: > tests/slow.txt
	$(PYTEST) --hypothesis-profile quick --store-slow
	$(PYTEST) $(QUICK) --store-slow  # fixtures now belong to other tests

# run the main tests in minutes: numbers against brute force, closed forms and fairseq, one whole run, dvc.yaml,
# architecture
test: .venv/.tests models
	$(PYTEST)

# check style and types of code, workflow and pages
lint: .venv/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check src tests contrib data tools docs/tools
	$(BIN)/mypy
	$(BIN)/snakemake --lint
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/python tools/lint.py

# run the other tests: outputs under DVC, other arithmetic, hostile input; browser and SLURM if installed
test-all: .venv/.tests .venv/.readers models
	$(PYTEST) -m "(more or browser or slurm) and not long"

# get a run's published results, and rebuild figures and the files that show text, in minutes; then all of the run is
# up to date
pull: $(READY)
	$(LOOK)
	@echo "Fetching the results of $(RUN) to results/$(RUN)/, then rebuilding what is not kept, which takes minutes on two cores"
	@$(BIN)/dvc pull --quiet $(PIPELINE) $(INPUTS)
	@$(BIN)/ff-memories restore $(CONFIG)

# record a finished run, and keep the last record of each run in .dvc/artefacts/; then commit it and the run's dvc.lock,
# unless it is too large for a clone
publish: $(READY)
	$(BIN)/ff-memories adopt $(CONFIG)
	$(BIN)/dvc push $(PIPELINE) $(INPUTS)
	@echo '!/*/' > runs/.dvcignore  # `dvc gc` removes what belongs to no run that it sees
	$(BIN)/dvc gc --workspace --cloud --force --quiet
	@test $$(du -sm .dvc/artefacts | cut -f 1) -le 70 || { echo ".dvc/artefacts/: more than 70 MB; push to another remote, or measure less"; exit 1; }

# build the documentation site, site/index.html, with the demo run if it is finished; for a site that others will read,
# TEXT=no leaves out pages that quote the demo's text
TEXT ?= yes
docs: .venv/.docs models
	TEXT=$(TEXT) OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --config-file docs/tools/mkdocs.yml
	@echo "Open site/index.html"

# regenerate the documentation pages that follow from the package and from docs/data
docs-pages: .venv/.tests
	for page in atlas_pictures bfloat16 campaigns commands config controls deviations families findings later readme reviewing rounding trainings; do $(BIN)/python docs/tools/$$page.py || exit 1; done

# run everything that needs a GPU: tests, benchmark, precisions, rehearsal; 40 minutes, in parts that can be resumed
gpu-campaign: .venv/.tests inputs
	$(BIN)/python -m tools.qa.gpu

# rewrite all that follows from the code: dvc.yaml of the recorded runs, generated pages
generated: models docs-pages
	$(BIN)/ff-memories dvc-yaml
	for run in $(RECORDED); do $(BIN)/ff-memories dvc-yaml --configfile config/$$run.yaml || exit 1; done

# get a run's model from the DVC remote inside the repository
inputs: $(READY)
	@$(if $(INPUTS),$(BIN)/dvc pull --quiet $(INPUTS))

# get the models of all recorded runs
models: setup
	@$(BIN)/dvc pull --quiet $(MODELS)

setup: .venv/.ready

# build a wheel with the package, its workflow, and the demo's model, dist/*.whl; this needs no environment and no compiler
wheel:
	rm -rf build dist
	$(VENV) build/tools
	build/tools/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	rm -rf build

# build wheel and sdist, and try both in empty environments: alone, and the wheel with each extra; it uploads nothing
EXTRAS = crate demo pickle spacy wikipedia s3 ssh slurm fairseq
RELEASE = .release
TRY = $(PYTHON) -m venv --clear $(RELEASE)/try && \
  $(RELEASE)/try/bin/python -m pip install --quiet -c $(LOCK) "$$it" && \
  $(RELEASE)/try/bin/python -m pip check && $(RELEASE)/try/bin/python tools/qa/installed.py
release: inputs
	rm -rf build dist $(RELEASE)
	$(PYTHON) -m venv $(RELEASE)/tools
	$(RELEASE)/tools/bin/python -m pip install --quiet build twine
	$(RELEASE)/tools/bin/python -m build --outdir dist .
	$(RELEASE)/tools/bin/python -m twine check --strict dist/*
	for it in dist/*.tar.gz dist/*.whl $(EXTRAS:%="$$(echo dist/*.whl)[%]"); do \
	  echo "trying $$it"; $(TRY) || exit 1; done
	rm -rf build $(RELEASE)

.venv/.ready: pyproject.toml $(LOCK)
	@echo "Making the environment .venv, which takes a minute or two"
	@$(VENV) .venv
	$(INSTALL) $(WHEELS) -e '.[demo]'
	touch $@

# models and texts by name need this
.venv/.wikipedia: .venv/.ready
	$(INSTALL) -e '.[wikipedia]'
	touch $@

# the tests also need the optional segmenter, the site's packages, and the linters
.venv/.tests: .venv/.ready
	@$(BIN)/python -m pip show --quiet fairseq 2>/dev/null || $(CXX) --version >/dev/null || \
	  { echo "The tests call fairseq, which needs a C++ compiler: apt-get install g++, or xcode-select --install"; exit 1; }
	@echo "Installing the tests' packages"
	$(INSTALL) -e '.[crate,demo,pickle,fairseq,spacy,wikipedia,slurm,docs,dev]'
	touch $@

# what reads the exports in the tests, without what only models and GPUs need: delphi alone asks for vLLM
READERS = eai-delphi==0.1.3 sae-bench==0.6.0 asyncer==0.0.18 beartype==0.23.1 blobfile==3.3.0 docstring_parser==0.18.0 \
  einops==0.8.2 faiss-cpu==1.15.1 jaxtyping==0.3.11 pycryptodomex==3.24.2 sentence-transformers==6.2.0 \
  simple-parsing==0.1.9 wadler_lindig==0.1.8
.venv/.readers: .venv/.tests
	@echo "Installing the readers of the exports"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	  --target .venv/readers/site-packages $(READERS)
	touch $@

.venv/.docs: .venv/.ready
	@echo "Installing the site's packages"
	$(INSTALL) -e '.[docs]'
	touch $@

# run the tests with the newest release of every package, in a separate environment, to see what the next upgrade
# breaks; this first prints the differences from constraints.txt
NEWEST = .venv-newest/bin
newest:
	$(PYTHON) -m venv --clear .venv-newest
	$(NEWEST)/python -m pip install --quiet -e '.[crate,demo,pickle,fairseq,spacy,wikipedia,slurm,docs,dev]'
	$(NEWEST)/python -m pip install --quiet --upgrade dvc snakemake torch
	$(NEWEST)/dvc pull --quiet $(MODELS)
	$(NEWEST)/python -c "from ff_memories.workflow.constraints import *; print(*differences())"
	$(NEWEST)/python -m pytest -n logical --dist loadfile -m 'not browser and not long and not slurm and not locked'
