"""What a step's code means: which edits change its digest, of hand-made modules, of the package, in both engines."""

import ast
import dataclasses
import json
import os
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from edits import EDITS, PACKAGE
from projects import run
from running import ROOT, command, snakemake

from ff_memories import config as configs
from ff_memories import declaration
from ff_memories.base.errors import UserError
from ff_memories.tables.schema import Column, Schema
from ff_memories.workflow.meaning import definitions, reached
from ff_memories.workflow.meaning.rows import rows

STEPS = [name.replace("-", "_") for name in declaration.names()]
WATCHING = ROOT / "tests" / "tools" / "sources" / "watching"


# ------------------------------------------------------------------------------------------------------- made modules

MADE = '''
"""What it is."""

from ff_memories.config import Config as Keys
from ff_memories import tables as schemas

SIZE: int = 3
NAMES = {"one": 1, "two": SIZE}


def first(x: int, y: "str" = SIZE) -> list[int]:
    """Do it."""
    values: list[int] = [Keys(n) for n in range(x)]  # a comment
    return values


class Second:
    """It."""

    name: Keys
    size: int = 3

    def method(self):
        def inner(schemas):
            return schemas.local
        return inner(SIZE), schemas.TABLES["a"]
'''


def apart(tmp_path, text, **options):
    path = tmp_path / f"made{len(list(tmp_path.iterdir()))}.py"
    path.write_text(text, encoding="utf-8")
    return definitions.module(path, **options)


def digests(module):
    return {name: [one.digest for one in own] for name, own in module.definitions.items()}


SAME = [
    ("  # a comment", ""),
    ("Do it.", "Do that, and no more."),
    ("What it is.", "What it was."),
    ('x: int, y: "str" = SIZE', 'x: "int | None", y: str = (SIZE)'),
    (" -> list[int]", ""),
    ("values: list[int] = ", "values = "),
    ("SIZE: int = 3", "SIZE = (\n    3\n)"),
    ('{"one": 1, "two": SIZE}', "{\n    'one': 1,\n    'two': SIZE,\n}"),
    ('    """It."""\n\n', ""),
]


@pytest.mark.parametrize(("old", "new"), SAME, ids=[old.strip() for old, _ in SAME])
def test_what_no_run_can_see_changes_no_meaning(old, new, tmp_path):
    assert old in MADE
    before, after = (apart(tmp_path, text) for text in (MADE, MADE.replace(old, new, 1)))
    assert digests(after) == digests(before)
    parts = [
        {key: one.digest for own in module.rows.values() for key, one in own.items()} for module in (before, after)
    ]
    assert parts[0] == parts[1]


OTHER = [
    ("SIZE: int = 3", "SIZE: int = 4", {"SIZE"}),
    ('y: "str" = SIZE', 'y: "str" = 3', {"first"}),
    ('"one": 1', '"one": 2', {"NAMES"}),
    ("return values", "return values[1:]", {"first"}),
    ("size: int = 3", "size: int = 4", {"Second"}),
    ("size: int = 3", "size: float = 3", {"Second"}),
    ("schemas.local", "schemas.other", {"Second"}),
]


@pytest.mark.parametrize(("old", "new", "changed"), OTHER, ids=[new for _, new, _ in OTHER])
def test_a_line_of_logic_changes_the_meaning_of_its_definition_alone(old, new, changed, tmp_path):
    before, after = (digests(apart(tmp_path, text)) for text in (MADE, MADE.replace(old, new, 1)))
    assert {name for name in before if before[name] != after[name]} == changed


def test_names_are_those_of_the_module_and_not_local_ones(tmp_path):
    made = apart(tmp_path, MADE)
    (first,), (second,) = made.definitions["first"], made.definitions["Second"]
    assert first.names == {("SIZE",), ("Keys",), ("range",)}
    assert second.names == {("SIZE",), ("Keys",), ("int",), ("schemas", "TABLES")}
    assert made.imports["schemas"] == {"ff_memories.tables"} and made.rows["NAMES"].keys() == {"one", "two"}
    assert made.rows["NAMES"]["two"].names == {("SIZE",)}


LOCAL = [
    ("def f():\n    return [values for values in values]", {"values"}),
    ("def f(values):\n    return values", set()),
    ("def f():\n    for values in (): pass\n    return values", set()),
    ("def f():\n    [values for values in ()]\n    return values", {"values"}),
    ("def f():\n    [values := 1 for x in ()]\n    return values", set()),
    ("def f(a=values):\n    values = a\n    return values", {"values"}),
    ("def f():\n    global values\n    values = 1", {"values"}),
    ("def f():\n    with open as values: return values", {"open"}),
    ("def f():\n    try: pass\n    except OSError as values: return values", {"OSError"}),
    ("def f(x):\n    match x:\n        case [values, *rest]: return values, rest", set()),
    ("f = lambda values: values", set()),
    ("@values\ndef f(values): return values", {"values"}),
    ("class C:\n    values = 1\n    def f(self): return values", {"values"}),
    ("def f():\n    def values(): return 1\n    return values()", set()),
]


@pytest.mark.parametrize(("text", "names"), LOCAL, ids=[text for text, _ in LOCAL])
def test_scopes_are_pythons(text, names, tmp_path):
    made = apart(tmp_path, text)
    found = {name for own in made.definitions.values() for one in own for name, *_ in one.names}
    assert found == names


def test_what_an_import_does_counts_and_what_only_type_checkers_read_does_not(tmp_path):
    made = apart(
        tmp_path,
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    A = B\nelse:\n    A = 1\n"
        "register(A)\n@hook('x')\ndef f(): ...\n@cache\ndef g(): ...\nA.b = 2\n"
        "if __name__ == '__main__':\n    main()\n",
    )
    assert [one.lines[0] for one in made.effects] == [6, 7, 11]
    assert [one.names for one in made.definitions["A"]] == [frozenset()]


def test_descriptions_and_defaults_of_config_keys_mean_nothing(tmp_path):
    text = 'class Keys(Section):\n    top: int = Field(10, description="how many")\n'
    before, after, other = (
        apart(tmp_path, changed, has_keys=True)
        for changed in (text, text.replace("10", "20").replace("how many", "the number"), text.replace("int", "float"))
    )
    assert digests(after) == digests(before) != digests(other)


# --------------------------------------------------------------------------------------------------------- the package


DECLARED = """
class Schema:
    by: dict
    about: str = ""

TABLES = {"one": Schema(by={"layer": Column(int, compared=SAME)}, about="it"), "two": Schema(by={})}
"""


def test_what_no_step_reads_of_a_table_means_nothing(tmp_path):
    text = DECLARED.replace('"it"', '"that", tied=0.5').replace(", compared=SAME", "").replace('= ""', "= None")
    before, after, other = (
        apart(tmp_path, changed, unread=reached.UNREAD) for changed in (DECLARED, text, text.replace("int", "str"))
    )
    assert digests(after) == digests(before) != digests(other)
    assert ("SAME",) not in before.rows["TABLES"]["one"].names


@pytest.mark.slow
def test_no_step_reads_what_its_digest_leaves_out_of_tables():
    assert {f.name for one in (Column, Schema) for f in dataclasses.fields(one)} >= reached.UNREAD
    found = set()
    for step in STEPS:
        for label, meaning in reached.reached(step, {}).code.items():
            at = label.partition(":")[0]
            found |= {(at, line) for line in attributes(at) if meaning.lines[0] <= line <= meaning.lines[1]}
    assert not found


@cache
def attributes(module):
    """Return the lines on which a module takes an attribute that has such a name, of anything but a module."""
    nodes = ast.walk(ast.parse(reached.modules()[module].read_bytes()))
    found = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in reached.UNREAD]
    imported = definitions.module(reached.modules()[module]).imports
    return [node.lineno for node in found if not (isinstance(node.value, ast.Name) and node.value.id in imported)]


def test_a_step_that_does_not_exist_is_named():
    with pytest.raises(UserError, match="trigger_shards: no such step"):
        reached.digest("trigger_shards", {})


@pytest.mark.parametrize("step", STEPS)
def test_every_name_that_a_step_can_reach_is_there(step):
    assert not reached.reached(step, {}).unknown


@pytest.mark.slow
def test_the_package_binds_no_name_in_a_way_that_is_not_followed():
    for name, path in reached.modules().items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            assert not (isinstance(node, ast.ImportFrom) and (node.level or node.names[0].name == "*")), name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "__import__"), name
    dynamic = {n for n, path in reached.modules().items() if "import_module(" in path.read_text(encoding="utf-8")}
    dynamic.discard("ff_memories.inputs.trained.fairseq_tools")  # a program that imports fairseq's own
    assert dynamic == {
        "ff_memories", "ff_memories.cli",  # they import what a command names, and no step uses them
        "ff_memories.figures.draw",  # FOUND says what it imports
    }  # fmt: skip


def jobs_of(folder):
    """Return what a watched run's steps executed: (step, its options, [(file, line, name)])."""
    for file in folder.glob("*.txt"):
        first, *lines = file.read_text(encoding="utf-8").splitlines()
        words = first.split("\0")
        if "step" in words:
            at = words.index("step")
            options: dict[str, list[str]] = {}
            for word in words[at + 2 :]:
                if word.startswith("--"):
                    given = options.setdefault(word, [])
                else:
                    given.append(word)
            yield words[at + 1].replace("-", "_"), options, [tuple(line.rsplit(":", 2)) for line in lines]


def not_covered(step, options, ran, config, folder):
    sections = json.loads(options["--config"][0]) if "--config" in options else {}
    model = str(folder / "model") if config.model.has_tokenizer else None
    files = [word for words in options.values() for word in words if word.endswith(".parquet")]
    figure = options.get("--figure", [None])[0]
    known = reached.reached(step, rows(step, config, sections.keys(), files, model, figure))
    spans = {}
    for label, meaning in known.code.items():
        spans.setdefault(label.partition(":")[0], []).append(meaning.lines)
    for file, line, name in ran:
        inside = file[file.rindex("ff_memories/") + len("ff_memories/") :]
        if inside in known.data:
            continue
        module = ".".join(Path(file[file.rindex("ff_memories") :]).with_suffix("").parts).removesuffix(".__init__")
        if not any(low <= int(line) <= high for low, high in spans.get(module, ())):
            yield f"{step}: {module}:{line} {name}"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["fairseq", "llama"])
def test_what_a_step_runs_is_what_its_digest_is_of(kind, tmp_path, request):
    """Every function that a whole run calls is among those that the step's digest has."""
    if kind == "fairseq":
        folder = tmp_path / "run"
        shutil.copytree(request.getfixturevalue("planted_run"), folder)
    else:
        from transformers_run import prepare

        folder = tmp_path / "run"
        folder.mkdir()
        prepare(folder, kind)
    watched = tmp_path / "watched"
    watched.mkdir()
    path = os.pathsep.join([str(WATCHING), os.environ.get("PYTHONPATH", "")])
    snakemake(folder, "--forceall", PYTHONPATH=path, WATCHED=watched)
    config, seen, missing = configs.load(folder / "my.yaml"), set(), set()
    for step, options, ran in jobs_of(watched):
        seen.add(step)
        missing |= set(not_covered(step, options, ran, config, folder))
    assert {"trigger_shard", "values", "figure", "report", "gallery", "claims", "baseline_model"} <= seen
    assert sorted(missing) == []


def test_another_thing_imported_by_the_same_name_changes_a_digest(tmp_path, monkeypatch):
    package = tmp_path / "ff_memories"
    (package / "steps").mkdir(parents=True)
    for name in ("__init__", "steps/__init__", "config"):
        (package / f"{name}.py").touch()
    (package / "base.py").write_text("def one(): return 1\ndef two(): return 1\n")
    step = package / "steps" / "it.py"
    texts = [
        f"from {module} import {name} as f\nfrom ff_memories.base import one, two\ndef run(): return f, one, two\n"
        for module, name in [
            ("math", "floor"),
            ("math", "ceil"),
            ("ff_memories.base", "one"),
            ("ff_memories.base", "two"),
        ]
    ]
    monkeypatch.setattr(reached, "PACKAGE", package)
    found = []
    for text in texts:
        step.write_text(text)
        forget()
        found.append(reached.digest("it", {}))
    forget()
    assert len(set(found)) == len(texts)


def forget():
    """Forget what was read of the package."""
    for cached in (definitions.module, reached._apart, reached._digest, reached._data, reached._files_in,
                   reached._unnamed, reached.modules):  # fmt: skip
        cached.cache_clear()


ALL = (
    "from ff_memories.workflow.meaning import reached; print(reached.PACKAGE, *(reached.digest(s, {}) for s in STEPS))"
)


@pytest.mark.slow
def test_an_installed_copy_has_the_same_digests(tmp_path):
    """Wherever it lies, whatever its times and line ends are, and however the interpreter is started."""
    shutil.copytree(ROOT / "src/ff_memories", tmp_path / "ff_memories", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "ff_memories").rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    done = command(
        sys.executable,
        "-O",
        "-c",
        ALL.replace("STEPS", repr(STEPS)),
        cwd=tmp_path,
        PYTHONPATH=tmp_path,
        PYTHONHASHSEED="7",
    )
    where, *found = done.stdout.split()
    assert where == str(tmp_path / "ff_memories")
    assert found == [reached.digest(step, {}) for step in STEPS]


# ----------------------------------------------------------------------------------------------------- in both engines


@pytest.fixture(scope="module")
def project(recorded_run, tmp_path_factory):
    """A checkout of a recorded run, up to date for both engines."""
    folder = tmp_path_factory.mktemp("edited") / "project"
    shutil.copytree(recorded_run, folder, symlinks=True)
    run(folder, "ff-memories", "restore")
    assert due(folder) == ([], [], [])
    return folder


SNAKEMAKES = """
import json
from ff_memories.workflow import dvc_yaml
from ff_memories.workflow.jobs import workflow
from ff_memories.workflow.runs.run import DEFAULT, Run
with workflow(Run.read(DEFAULT)) as found:
    jobs = list(found.dag.needrun_jobs())
    own = [job for job in jobs if found.dag.reason(job).params_changed or found.dag.reason(job).code_changed]
    print(json.dumps([sorted({dvc_yaml.stage_of(job) for job in part if job.output}) for part in (own, jobs)]))
"""


def due(folder):
    """Return the stages that an edit makes due: for Snakemake by themselves, and with all that follow; for DVC.

    Of a stage that follows from another one, Snakemake gives that as the reason.
    """
    own, with_following = json.loads(run(folder, sys.executable, "-c", SNAKEMAKES).stdout)
    run(folder, "dvc", "repro", "--quiet", "workflow/sources/dvc.yaml")
    status = json.loads(run(folder, "dvc", "status", "--json", "dvc.yaml").stdout or "{}")
    return own, with_following, sorted(address.rpartition(":")[2] for address in status)


QUICK = {"a comment", "a line of logic"}


@pytest.mark.parametrize(
    "edit",
    [pytest.param(row, marks=pytest.mark.more if row[0] in QUICK else pytest.mark.long) for row in EDITS],
    ids=[row[0] for row in EDITS],
)
def test_an_edit_makes_due_what_runs_it_and_no_more(edit, project):
    _, name, old, new, stages_ = edit
    file = project / (name[1:] if name.startswith("/") else PACKAGE + name)
    text = file.read_text(encoding="utf-8")
    assert old in text and old != new
    every = yaml.safe_load((project / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    expected = sorted(s for s in every if s in stages_ or any(f"*{s.split('-')[0]}" == one for one in stages_))
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        own, with_following, dvcs = due(project)
        assert dvcs == expected
        assert set(own) <= set(expected) <= set(with_following) and bool(own) == bool(expected)
    finally:
        file.write_text(text, encoding="utf-8")


@pytest.mark.more
def test_digests_edited_by_hand_are_written_again_and_a_missing_file_is_named(project):
    file = project / "sources.yaml"
    run(project, "ff-memories", "sources")  # other tests leave the digests of an edit
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("claims: ", "claims: 0"), encoding="utf-8")
    done = run(project, "ff-memories", "verify", "--only", "record", check=False)
    assert "! sources.yaml: not what the code and the config mean; run ff-memories sources" in done.stdout, done.stdout
    run(project, "ff-memories", "restore")
    assert file.read_text(encoding="utf-8") == text
