"""Export a run as an RO-Crate: its files and their provenance, as a Provenance Run Crate (Workflow Run RO-Crate).

    python -m contrib.ro_crate.crate --out demo.crate.zip

Files that show text, or that are not here, are described with their digest but left out, so a crate can be shared
with anybody.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from ff_memories.base.errors import UserError, with_extra
from ff_memories.base.files import atomic_write, require_new
from ff_memories.model.info import quantised, read_info
from ff_memories.workflow import constraints, dvc_lock_file, dvc_yaml, opening, records
from ff_memories.workflow.run import Run

try:
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate
except ImportError:
    print(f"error: rocrate is not installed\n  fix: {with_extra('crate')}", file=sys.stderr)
    sys.exit(2)

SNAKEFILE = "workflow/Snakefile"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate 0.5",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate 0.5",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate 0.5",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate 1.0",
}
TERMS = {"md5": "https://w3id.org/ro/terms/workflow-run#md5"}
TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".html": "text/html",
    ".csv": "text/csv",
    ".json": "application/json",
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".lock": "application/yaml",
}


@dataclass(frozen=True)
class Stage:
    """A recorded stage: what it is about, its command, the digest of what it does, and {path: MD5} of its files."""

    name: str
    about: str
    command: str
    code: str
    inputs: dict[str, str]
    outputs: dict[str, str]


def read(run: Run) -> dict[str, Stage]:
    """Return {name: stage} of a recorded run; a folder that a stage reads stands for its files."""
    found, declared = dvc_lock_file.read(run), dvc_yaml.stages(run)
    made = {path: md5 for path, (_, md5) in dvc_lock_file.outputs(run).items()}
    out = {}
    for name, entry in found.items():
        files = {dep["path"]: dep["md5"] for dep in entry.get("deps", [])}
        inputs = {path: md5 for path, md5 in files.items() if path in made or not path.startswith(run.results)}
        inputs |= {path: made[path] for folder in files.keys() - inputs.keys() for path in made if folder in path}
        code = "".join(entry.get("params", {}).get(str(run.sources_yaml), {}).values())
        about = declared[name].about if name in declared else ""
        outputs = {file["path"]: file["md5"] for file in entry.get("outs", [])}
        out[name] = Stage(name, about, entry["cmd"], code, inputs, outputs)
    return out


def build(run: Run, info: Mapping[str, Any]) -> ROCrate:
    """Return the crate of a run; write it with ``write`` or ``write_zip``.

    Args:
        info: the model's.

    Raises:
        UserError: a file for the crate differs from the record.
    """
    about, name, recorded = _software(), run.config.run, read(run)
    crate = ROCrate(version="1.1")  # which Provenance Run Crate 0.5 builds on
    for term, meaning in TERMS.items():
        crate.metadata.extra_terms[term] = meaning
    crate.name = f"The run {name} of {about['title']}"
    crate.description = f"{about['abstract']} This is the run {name}, of {_whose(info)}."
    licence = f"https://spdx.org/licenses/{about['license']}"
    words = {"name": f"{about['license']} licence", "description": f"the terms of {licence}"}
    crate.root_dataset["license"] = _add(crate, licence, "CreativeWork", **words)
    crate.datePublished = datetime.fromtimestamp(run.dvc_lock.stat().st_mtime, UTC)
    agent = _add(crate, "#developers", "Organization", name=about["authors"][0]["name"])
    crate.root_dataset["author"] = crate.root_dataset["publisher"] = agent
    crate.root_dataset["conformsTo"] = [
        _add(crate, url, "CreativeWork", name=name, version=url.rpartition("/")[2]) for url, name in PROFILES.items()
    ]
    files = _files(crate, recorded, run)
    workflow = _workflow(crate, about)
    actions, controls = [], []
    for position, stage in enumerate(_in_order(recorded)):
        tool = _tool(crate, stage)
        step = _add(crate, f"#step/{stage.name}", "HowToStep", name=stage.name, position=str(position))
        step["workExample"] = tool
        workflow.append_to("step", step)
        if tool not in (workflow.get("hasPart") or []):
            workflow.append_to("hasPart", tool)
        action = _action(crate, stage, tool, files, agent)
        control = _add(crate, f"#control/{stage.name}", "ControlAction", name=f"orchestrate {stage.name}")
        control["instrument"], control["object"] = step, action
        actions.append(action)
        controls.append(control)
    whole = _whole(crate, recorded, workflow, controls, files, agent, records.machines(run))
    crate.root_dataset["mentions"] = [*actions, *whole]
    return crate


def _software(path: Path = Path("CITATION.cff")) -> dict[str, Any]:
    """Return the software's description in CITATION.cff. Raises ``UserError`` if a needed key is missing."""
    try:
        about = dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", "run this command in the project's top folder") from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not readable ({error})") from None
    if missing := {"title", "abstract", "license", "authors"} - about.keys():
        raise UserError(f"{path}: missing key {min(missing)}", "add it; a crate needs it")
    return about


def _whose(info: Mapping[str, Any]) -> str:
    others = {"surrogate": "a surrogate model, not the paper's own", "model": "a model that is not the paper's"}
    weights = quantised(info)
    return others.get(info["scope"], "the paper's own model") + (f", in {weights}" if weights else "")


def _add(crate: ROCrate, id_: str, type_: str | list[str], **properties: Any) -> ContextEntity:
    return crate.add(ContextEntity(crate, id_, properties={"@type": type_, **properties}))


def _files(crate: ROCrate, recorded: dict[str, Stage], run: Run) -> dict[str, Any]:
    """Add every file that the run read or wrote; return them by path."""
    made = {path: md5 for stage in recorded.values() for path, md5 in stage.outputs.items()}
    read = {path: md5 for stage in recorded.values() for path, md5 in stage.inputs.items() if path not in made}
    entities = {}
    for path, md5 in sorted({**made, **read}.items()):
        described = {"name": path, "md5": md5}
        shared = dvc_yaml.SHARED.search(path) if path in made else Path(path + ".dvc").is_file()
        if not shared or not os.path.isfile(path):
            entities[path] = _add(crate, f"#{path}", "CreativeWork", **described, description="not in the crate")
        elif dvc_lock_file.digest(path) != md5:
            raise UserError(f"{path}: differs from {run.dvc_lock}", "run ff-memories verify to see all differences")
        else:
            size = {"contentSize": str(os.path.getsize(path))}
            entities[path] = crate.add_file(path, path, properties=described | size | _type(path))
    for record in _records(run):
        crate.add_file(record, str(record), properties={"name": str(record), **_type(record)})
    readme = crate.add_file("README.md", "README.md", properties={"name": "README.md", **_type("README.md")})
    readme["about"] = crate.root_dataset
    return entities


def _type(path: str | Path) -> dict[str, str]:
    return {"encodingFormat": TYPES.get(Path(path).suffix, "text/plain")}


def _one(entities: list[Any]) -> Any:
    """Return a list in JSON-LD form: a single entity without its list."""
    return entities[0] if len(entities) == 1 else entities


def _records(run: Run) -> list[Path]:
    """Return the files that declare and record the run."""
    found = [Path(run.file), run.dvc_yaml, run.dvc_lock]
    found += [records.machines_of(run), constraints.LOCK, *sorted(Path("workflow/rules").glob("*.smk"))]
    return [path for path in found if path.is_file()]


def _workflow(crate: ROCrate, about: dict[str, Any]) -> Any:
    kinds = {"@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]}
    workflow = crate.add_workflow(
        SNAKEFILE, SNAKEFILE, main=True, lang="snakemake", properties={**kinds, **_type(SNAKEFILE)}
    )
    workflow["name"], workflow["version"], workflow["license"] = (
        about["title"],
        version("ff-memories"),
        crate.root_dataset["license"],
    )
    return workflow


def _tool(crate: ROCrate, stage: Stage) -> Any:
    words = {"name": stage.command.partition(" -- ")[0], "description": stage.about}
    id_ = f"#tool/{stage.name.partition('@')[0]}"
    return crate.get(id_) or _add(crate, id_, "SoftwareApplication", **words, softwareVersion=version("ff-memories"))


def _action(crate: ROCrate, stage: Stage, tool: Any, files: dict[str, Any], agent: Any) -> Any:
    """Add a stage's CreateAction: its inputs, outputs, command, code and environment."""
    lock = dvc_lock_file.digest(constraints.LOCK, "sha256")
    about = f"code {stage.code}; environment {lock}; {stage.command}"
    action = _add(
        crate,
        f"#run/{stage.name}",
        "CreateAction",
        name=f"run of {stage.name}",
        description=about,
        actionStatus=COMPLETED,
    )
    action["instrument"], action["agent"] = tool, agent
    action["object"] = _one([files[path] for path in sorted(stage.inputs)])
    action["result"] = _one([files[path] for path in sorted(stage.outputs)])
    return action


COMPLETED = "http://schema.org/CompletedActionStatus"


def _whole(
    crate: ROCrate,
    recorded: dict[str, Stage],
    workflow: Any,
    controls: list[Any],
    files: dict[str, Any],
    agent: Any,
    costs: dict[str, dict[str, Any]],
) -> list[Any]:
    """Add the run as a whole: the workflow's own action, and Snakemake's action of ordering the steps."""
    made = {path for stage in recorded.values() for path in stage.outputs}
    read = {path for stage in recorded.values() for path in stage.inputs} - made
    spent = [f"{rule} took {cost['seconds']:.1f} s on {cost['machine']}" for rule, cost in sorted(costs.items())]
    run = _add(
        crate,
        "#run",
        "CreateAction",
        name="run of the workflow",
        actionStatus=COMPLETED,
        description="; ".join(["all steps, in the order that Snakemake gave them", *spent]),
    )
    run["instrument"], run["agent"] = workflow, agent
    run["object"], run["result"] = _one([files[p] for p in sorted(read)]), [files[p] for p in sorted(made)]
    engine = _add(
        crate,
        "#snakemake",
        "SoftwareApplication",
        name="Snakemake",
        url="https://snakemake.github.io",
        softwareVersion=version("snakemake"),
    )
    order = _add(crate, "#order", "OrganizeAction", name="Snakemake's order of the steps", actionStatus=COMPLETED)
    order["instrument"], order["agent"] = engine, agent
    order["object"], order["result"] = controls, run
    return [run, order]


def _in_order(recorded: dict[str, Stage]) -> list[Stage]:
    """Return the stages in topological order, each after those it reads from."""
    maker = {path: stage.name for stage in recorded.values() for path in stage.outputs}
    before = {name: sorted({maker[p] for p in stage.inputs if p in maker}) for name, stage in sorted(recorded.items())}
    return [recorded[name] for name in TopologicalSorter(before).static_order()]


def main(words: list[str]) -> None:
    """Write a run's crate to a new .zip file or a new folder."""
    parser = argparse.ArgumentParser(description="Export a recorded run as an RO-Crate.")
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="the crate: a new .zip file or a new folder")
    args = parser.parse_args(words)
    require_new(args.out, "name")
    run = opening.opened(args.configfile)
    made = build(run, read_info(run.path("model", "info.json")))
    if args.out.suffix == ".zip":
        with atomic_write(args.out) as partial:
            made.write_zip(partial)
    else:
        made.write(args.out)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as refused:
        sys.exit(f"error: {refused}")
