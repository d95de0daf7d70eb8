# The environment of constraints.txt as an image. One file for both builds:
#   docker build -t ff-memories .                                              CPU
#   docker build -t ff-memories:cuda --build-arg TORCH=cuda .                  CUDA, as PyPI's torch has it
#   docker run --rm -v "$PWD:/work" ff-memories --cores all --resources gpu=1  (--gpus all with the CUDA image)
FROM python:3.11-slim-bookworm

ARG TORCH=cpu
SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# fairseq is built from source; git and make serve DVC and the Makefile
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ git make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/ff-memories
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src

# the lock pins torch's version; the CPU build of it is the same version from PyTorch's own index
RUN if [ "$TORCH" = cpu ]; then \
        python -m pip install --no-cache-dir -c constraints.txt torch --index-url https://download.pytorch.org/whl/cpu; \
    fi \
    && python -m pip install --no-cache-dir -c constraints.txt -e '.[crate,demo,fairseq,spacy,slurm]' \
    && python -c "import ff_memories.inputs.trained.fairseq_tools, fairseq, torch, ff_memories.cli"

COPY . .
ENV OMP_WAIT_POLICY=passive
WORKDIR /work
ENTRYPOINT ["snakemake", "--snakefile", "/opt/ff-memories/Snakefile"]
