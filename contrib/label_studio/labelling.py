"""Label Studio's tasks, and its exports: spans over an item's text, one prefix per line.

An item's text has its prefixes as lines, in order of rank. A mark in a line says that this prefix has the pattern.
Regions are named `pattern 1` ..., with a type and a description for each; `no pattern` says that there is none.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from ff_memories.annotate.annotation_files import Pattern, Problems
from ff_memories.annotate.study import Item
from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.tables.annotation import TYPES

MOST = 8
NOTHING = "no pattern"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#777777")


def text_of(item: Item) -> str:
    """Return an item's prefixes, one per line."""
    return "\n".join(" ".join(words) or "(empty)" for words in item.prefixes)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _spans(item: Item, record: Pattern) -> list[tuple[int, int]]:
    lines, starts = text_of(item).split("\n"), [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return [(starts[r - 1], starts[r - 1] + len(lines[r - 1])) for r in record.ranks]


def interface() -> str:
    """Return the labelling interface to paste into a Label Studio project."""
    labels = "\n".join(
        f'    <Label value="pattern {n}" background="{COLOURS[n - 1]}" hotkey="{n}"/>' for n in range(1, MOST + 1)
    )
    choices = "".join(f"<Choice value={quoteattr(kind)}/>" for kind in TYPES)
    about = "\n".join(
        f'  <Header value="pattern {n}"/>\n'
        f'  <TextArea name="description_{n}" toName="text" maxSubmissions="1" placeholder="in words"/>\n'
        f'  <Choices name="type_{n}" toName="text" choice="single" showInline="true">{choices}</Choices>'
        for n in range(1, MOST + 1)
    )
    return f"""<View>
  <Labels name="pattern" toName="text">
{labels}
  </Labels>
  <Text name="text" value="$text" granularity="word"/>
  <Choices name="nothing" toName="text" choice="single"><Choice value="{NOTHING}"/></Choices>
{about}
</View>
"""


def tasks(run: str, items: Iterable[Item], records: Iterable[Pattern] = ()) -> str:
    """Return tasks to import, with annotators' records if given."""
    noted: dict[str, dict[str, list[Pattern]]] = {}
    for record in records:
        noted.setdefault(record.item, {}).setdefault(record.annotator, []).append(record)
    listed = []
    for item in items:
        task: dict[str, Any] = {"data": {"run": run, "item": item.item, "text": text_of(item)}}
        if item.item in noted:
            task["annotations"] = [
                {"completed_by": {"email": name}, "result": [r for one in mine for r in _results(item, one)]}
                for name, mine in noted[item.item].items()
            ]
        listed.append(task)
    return json.dumps(listed, ensure_ascii=False, indent=1) + "\n"


def _results(item: Item, record: Pattern) -> list[dict[str, Any]]:
    def result(name: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
        return {"from_name": name, "to_name": "text", "type": kind, "value": value}

    if not record.type:
        return [result("nothing", "choices", {"choices": [NOTHING]})]
    number, text = record.pattern, text_of(item)
    spans = [
        result("pattern", "labels", {"start": a, "end": b, "text": text[a:b], "labels": [f"pattern {number}"]})
        for a, b in _spans(item, record)
    ]
    return [
        *spans,
        result(f"description_{number}", "textarea", {"text": [record.description]}),
        result(f"type_{number}", "choices", {"choices": [record.type]}),
    ]


def read(path: str | Path, run: str, problems: Problems) -> list[Pattern]:
    """Read Label Studio's JSON export. The annotator is `completed_by`, by e-mail address if given."""
    given = _json(path, problems)
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(t, dict) and isinstance(t.get("data"), dict) for t in given):
        problems.add(str(path), "not a list of Label Studio tasks", "export as JSON, not JSON_MIN")
        return []
    out = []
    for number, task in enumerate(given, 1):
        place, data = f"{path}, task {number}", task["data"]
        if not _of_run(place, data, run, problems):
            return []
        try:
            for made in task.get("annotations") or []:
                if made.get("was_cancelled"):
                    continue
                who = made.get("completed_by")
                name = who.get("email") or str(who.get("id", "")) if isinstance(who, dict) else f"user {who}"
                out += _patterns(place, str(path), name, data, made.get("result") or [], problems)
        except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
            problems.add(place, f"a result that our interface does not produce ({error!r})", "use our interface.xml")
    return out


def _patterns(
    place: str, path: str, annotator: str, data: dict[str, Any], results: list[dict[str, Any]], problems: Problems
) -> list[Pattern]:
    spans: dict[str, set[int]] = {}
    types: dict[str, str] = {}
    descriptions: dict[str, str] = {}
    none = False
    for result in results:
        name, value = result.get("from_name", ""), result.get("value", {})
        kind, _, number = name.partition("_")
        if name == "pattern":
            lines = range(
                _line(data["text"], value["start"]), _line(data["text"], max(value["start"], value["end"] - 1)) + 1
            )
            for label in value["labels"]:
                spans.setdefault(label.removeprefix("pattern "), set()).update(lines)
        elif kind == "description":
            descriptions[number] = " ".join(value["text"]) if isinstance(value["text"], list) else value["text"]
        elif kind == "type":
            types[number] = value["choices"][0]
        elif name == "nothing":
            none = True
    out = [Pattern(place, path, annotator, data["item"])] if none else []
    for number in sorted({*spans, *types, *descriptions}):
        out.append(
            Pattern(
                f"{place}, pattern {number}",
                path,
                annotator,
                data["item"],
                number,
                types.get(number, "(empty)"),
                descriptions.get(number, "").strip(),
                tuple(sorted(spans.get(number, ()))),
            )
        )
    if not out:
        problems.add(place, f"{annotator} submitted {data['item']} without a mark", f"mark a pattern or {NOTHING!r}")
    return out


def _of_run(place: str, data: dict[str, Any], run: str, problems: Problems) -> bool:
    if not (isinstance(data.get("item"), str) and data["item"]):
        problems.add(place, "the item's name is missing", "import our task file, which names them, and export again")
    elif data.get("run") != run:
        problems.add(place, f"labels for the run {data.get('run')!r}", "name that run's config with --configfile")
    else:
        return True
    return False


def _json(path: str | Path, problems: Problems) -> Any:
    require_file(path)
    try:
        return foreign.json_of(Path(path).read_bytes(), str(path), Any, text=True)
    except UserError as error:
        problems.add(str(path), str(error).removeprefix(f"{path}: "), "export it again")
        return None
