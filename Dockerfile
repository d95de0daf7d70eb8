# The package from its wheel, in the environment of constraints.txt, as an image. One file for both builds:
#   docker build -t ff-memories .                                              CPU
#   docker build -t ff-memories:cuda --build-arg TORCH=cuda .                  CUDA, as PyPI's torch has it
#   docker run --rm -v "$PWD:/work" ff-memories run my.yaml                    (--gpus all with the CUDA image)
FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE Snakefile constraints.txt CHANGELOG.md CITATION.cff ./
COPY config config
COPY profiles profiles
COPY workflow workflow
COPY src src
COPY data/demo data/demo
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.11-slim-bookworm

ARG TORCH=cpu
SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# fairseq is built from source; git and make serve DVC and the Makefile of a clone that is mounted
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make \
    && rm -rf /var/lib/apt/lists/*

COPY constraints.txt /opt/
COPY --from=wheel /dist /opt/dist

# the lock pins torch's version; the CPU build of it is the same version from PyTorch's own index
RUN wheel=$(echo /opt/dist/*.whl) \
    && if [ "$TORCH" = cpu ]; then \
        python -m pip install --no-cache-dir -c /opt/constraints.txt torch --index-url https://download.pytorch.org/whl/cpu; \
    fi \
    && python -m pip install --no-cache-dir -c /opt/constraints.txt "$wheel[crate,demo,fairseq,spacy,slurm]" \
    && python -c "import numpy; numpy.float = float; import fairseq, torch, ff_memories.cli"

ENV OMP_WAIT_POLICY=passive
WORKDIR /work
ENTRYPOINT ["ff-memories"]
