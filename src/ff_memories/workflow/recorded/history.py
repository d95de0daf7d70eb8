"""Say what a run's record adds to the repository's history, which no later commit makes smaller."""

from dataclasses import dataclass
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.workflow.engines import lock, processes, stages
from ff_memories.workflow.runs.run import Run

STORE = Path("artefacts/files/md5")  # the remote inside the repository
AT_MOST = 20_000_000  # bytes that one run may add
ALL_AT_MOST = 60_000_000  # bytes of all records, so a clone stays light
Objects = dict[str, int]  # {MD5 of a file or folder: its bytes}


@dataclass(frozen=True)
class RecordSize:
    """The size of a run's record, in bytes.

    Attributes:
        own: its outputs that DVC keeps, and its inputs that come with the project.
        added: what no commit has yet; a folder with one new file counts as a whole.
        every: the records of all runs.
    """

    own: int
    added: int
    every: int

    def __str__(self) -> str:
        own, added, every = (f"{size / 1e6:.1f} MB" for size in (self.own, self.added, self.every))
        return f"record: {own}, of which {added} are new to the repository's history; all records: {every}"


def record(run: Run) -> RecordSize:
    """Return the size of a run's record.

    Raises:
        UserError: it adds too much, or all records would be too large.
    """
    before = {path.replace("/", "") for path in _git("log", "--format=", "--name-only", "--relative=" + str(STORE))}
    own = _kept(run.dvc_lock)
    every = [_kept(Path(path)) for path in _git("ls-files", "*dvc.lock", "*.dvc") if Path(path).is_file()]
    out = RecordSize(
        sum(own.values()),
        sum(size for md5, size in own.items() if md5 not in before),
        sum({md5: size for one in (own, *every) for md5, size in one.items()}.values()),
    )
    hint = "push to another remote (docs/artefacts.md), or measure less: fewer triggers.keys, a smaller triggers.top"
    if out.added > AT_MOST:
        raise UserError(f"{out}; a run may add {AT_MOST / 1e6:.0f} MB", hint)
    if out.every > ALL_AT_MOST:
        raise UserError(f"{out}; {ALL_AT_MOST / 1e6:.0f} MB at most", hint)
    return out


def _kept(path: Path) -> Objects:
    """Return what DVC keeps of a run's dvc.lock and of the ``.dvc`` files of its inputs, or of one such file."""
    if path.suffix == ".dvc":
        return {out["md5"]: out["size"] for out in lock.parsed(path, lock.Pointer)["outs"]}
    listed = lock.stages_of(path).values()
    found = {o["md5"]: o["size"] for stage in listed for o in stage.get("outs", []) if stages.is_kept(o["path"])}
    deps = {Path(dep["path"]) for stage in listed for dep in stage.get("deps", [])}
    inputs = {Path(f"{place}.dvc") for dep in deps for place in (dep, *dep.parents[:-1])}
    return found | {md5: size for file in sorted(inputs) if file.is_file() for md5, size in _kept(file).items()}


def _git(*arguments: str) -> list[str]:
    done = processes.run(["git", *arguments])
    if done.returncode:
        raise UserError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.splitlines()
