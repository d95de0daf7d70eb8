"""A pytest plugin that notes which tests run which functions of the package, and how long they take.

What a fixture of a module or a session runs counts for every test that asks for it. What tests run in other processes
is not seen, and those that ask for a run by Snakemake are left out.
"""

import ast
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage

ELSEWHERE = {"planted_run", "recorded_run"}


def functions(tree: ast.AST) -> list[tuple[int, int, int, str]]:
    """Return (first line, first line of the body, last line, name) of all functions of a module, inner ones last."""

    def within(node: ast.AST, name: str) -> Iterator[tuple[int, int, int, str]]:
        for child in ast.iter_child_nodes(node):
            own = f"{name}.{child.name}" if hasattr(child, "name") and isinstance(child.name, str) else name
            if isinstance(child, ast.FunctionDef):
                yield child.lineno, child.body[0].lineno, child.end_lineno, own[1:]
            yield from within(child, own)

    return list(within(tree, ""))


class Covering:
    """Gathers ``tests``, {test: (seconds, shared fixtures)}, ``shared``, {fixture: seconds}, and ``runs``,
    {file: {test or fixture: functions}}, of the tests that pass."""

    def __init__(self, source: Path):
        self.source, self.tests, self.shared, self.runs = source, {}, {}, {}
        self.coverage = Coverage(data_file=None, config_file=False, include=[f"{source}/*"])
        self.active, self.made, self.inside, self.passed = [""], {}, 0.0, set()

    def enter(self, context: str) -> None:
        self.active.append(context)
        self.coverage.switch_context(context)

    def leave(self) -> None:
        self.active.pop()
        self.coverage.switch_context(self.active[-1])

    def pytest_collection_modifyitems(self, items) -> None:
        items[:] = [item for item in items if ELSEWHERE.isdisjoint(item.fixturenames)]

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            return (yield)
        name = f"{fixturedef.baseid}::{fixturedef.argname}[{request.param_index}]"
        begin, outer = time.process_time(), self.inside
        self.made[fixturedef] = name
        self.enter(name)
        try:
            return (yield)
        finally:
            self.leave()
            took = time.process_time() - begin
            self.shared[name] = max(self.shared.get(name, 0.0), took - (self.inside - outer))
            self.inside = outer + took

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        begin, self.inside = time.process_time(), 0.0
        self.enter(item.nodeid)
        try:
            return (yield)
        finally:
            self.leave()
            used = [d[-1] for d in item._fixtureinfo.name2fixturedefs.values()]
            names = [self.made[fixture] for fixture in used if fixture in self.made]
            self.tests[item.nodeid] = (time.process_time() - begin - self.inside, names)

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.tests = {test: found for test, found in self.tests.items() if test in self.passed}
        data = self.coverage.get_data()
        for path in map(Path, data.measured_files()):
            if path.suffix != ".py":
                continue  # a template
            ran = self.runs[path.relative_to(self.source).as_posix()] = {}
            own = functions(ast.parse(path.read_text(encoding="utf-8")))
            for line, contexts in data.contexts_by_lineno(str(path)).items():
                for name in [name for _, first, last, name in own if first <= line <= last]:
                    for context in contexts:
                        ran.setdefault(context, set()).add(name)
