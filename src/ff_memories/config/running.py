"""The config's sections on how a run computes: with which resources, precision and sources."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ff_memories.base import machine
from ff_memories.base.arithmetic import Precision
from ff_memories.config.section import FilePath, Section

SAME_SAMPLE, UNTRAINED, SHUFFLED = "same_sample", "untrained-", "shuffled-"  # the models of a run's baselines, by name
# of what is measured on a model of the baselines, at most: keys are resampled, not triggers, so more tell little
MUTATED_TRIGGERS, CHANGED_MEMORIES, REMOVED_PREFIXES = 10, 2, 20
MOST_SHARDS = 64  # of `execution.shards: auto`: more jobs take longer to start than a run of usual size takes


class Sources(Section):
    """Named sources, and the checks of a named checkpoint against known numbers (golden checks)."""

    registry: FilePath | None = Field(
        None,
        description="a TOML file with your own sources, which add to the package's sources or replace them; null: none",
    )
    golden: Literal["check", "off"] = Field(
        "check", description="golden checks of a named checkpoint: check | off (the run then counts as a surrogate)"
    )


class ExecutionSection(Section):
    """Resources. These keys change no result beyond near-ties, and changing them reruns nothing."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where the model runs; auto: on a GPU if there is one"
    )
    shards: Literal["auto"] | Annotated[int, Field(ge=1, le=10_000)] = Field(
        "auto", description="number of jobs that share each step that runs the model; auto: as many as run at once"
    )
    batch_tokens: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        16_384,
        description="tokens per forward pass; lower it if memory runs out. auto: 16384 on a CPU, as many as fit a GPU",
    )
    arithmetic: Literal["portable", "fast"] = Field(
        "portable",
        description="on a CPU: portable (the same bits on every x86-64 CPU with AVX2; one thread per job) | fast",
    )

    @property
    def tokens(self) -> int:
        """The tokens of a forward pass on this machine."""
        return machine.batch_tokens(self.batch_tokens, self.device)

    def shards_for(self, jobs: int) -> int:
        """Return the number of shards of a machine or cluster that runs so many jobs at once."""
        return min(MOST_SHARDS, jobs) if self.shards == "auto" else self.shards


class Extraction(Section):
    """The precision of every step that runs the model."""

    precision: Precision = Field(
        "float32",
        description="precision of the factors of matrix products: float32 (paper) | tf32 (11 significant bits; GPU "
        "only) | bfloat16 (8 bits; on a CPU with its instructions faster under execution.arithmetic: fast); sums are "
        "always float32",
    )


class Baselines(Section):
    """Untrained models, and the run's own, on a sample of the text: what every claim is compared with."""

    models: int = Field(5, ge=1, le=20, description="number of untrained models; one gives no prediction interval")
    shuffled: int = Field(
        1,
        ge=0,
        le=20,
        description="number of models whose matrices are the run's own with their entries in a random order",
    )
    sentences: int = Field(
        1000,
        ge=1,
        le=10**9,
        description="random training sentences in which each model's triggers are sought, and validation sentences at "
        "most on which its perplexity is measured",
    )
    keys_per_layer: int = Field(
        10, ge=1, le=65_536, description="number of random keys per layer whose triggers are mutated"
    )
    examples: int = Field(500, ge=1, le=10**9, description="number of random prefixes for section 5")

    @property
    def names(self) -> list[str]:
        """The names of the models: the run's own, ``untrained-1`` and so on, ``shuffled-1`` and so on."""
        kinds = ((UNTRAINED, self.models), (SHUFFLED, self.shuffled))
        return [SAME_SAMPLE, *(f"{kind}{draw + 1}" for kind, number in kinds for draw in range(number))]

    def of_a_model(self, resolved: dict[str, Any]) -> dict[str, Any]:
        """Return a run's resolved config as it is for a model of the baselines, which always draws its examples."""
        most = {
            "mutations": {"keys_per_layer": self.keys_per_layer, "top": MUTATED_TRIGGERS},
            "composition": {"examples": self.examples},
            "causal": {"keys_per_layer": CHANGED_MEMORIES},
            "removals": {"prefixes": REMOVED_PREFIXES},
        }
        out = dict(resolved)
        for name, sizes in most.items():
            out[name] = resolved[name] | {key: min(resolved[name][key], size) for key, size in sizes.items()}
        out["composition"]["sample_file"] = None
        return out


class Sensitivity(Section):
    """How choices that the paper leaves open affect its claims."""

    choices: Literal["none", "controls", "quick", "all"] = Field(
        "none",
        description="choices that every run tests: none | controls (triggers cut at an earlier token, values of one "
        "length, memories with 90 % of a layer's energy) | quick (controls, and those of values and composition) | "
        "all; with none, `snakemake sensitivity` still tests all",
    )
