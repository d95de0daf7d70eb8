"""The paper's claims as data, the checks that judge them by a run's tables, and their verdicts."""

from ff_memories.claims.evidence import Evidence, Missing
from ff_memories.claims.measurement import Measurement
from ff_memories.claims.register import Claim, natural, register
from ff_memories.claims.verdicts import judge, verdicts

__all__ = ["Claim", "Evidence", "Measurement", "Missing", "judge", "natural", "register", "verdicts"]
