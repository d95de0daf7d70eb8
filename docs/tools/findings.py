"""Update docs/findings.md, its ledger and the README's results from recorded runs; docs/data/findings.json keeps them.

``--results`` names the runs' folders, the one that leads first; with it, the page's pictures are drawn too:

    python docs/tools/findings.py --results results/smollm2 results/qwen results/stories15m results/demo \
        results/stories15m-stories

A run of a model that an earlier one is of too has rows in the ledger, and a paragraph of its own.
"""

import csv
import io
import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import controls
import findings_pictures as pictures
import rounding
import trainings
from pages import ROOT, options, read_rows, renew, replaced, table

from ff_memories import tables
from ff_memories.atlas.runs import Member, members
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.text import listed
from ff_memories.judge import training, wording
from ff_memories.judge.numbers import NOTHING, joined, measured, number, spread
from ff_memories.judge.register import Claim, register
from ff_memories.report.answers import FIRST, SOURCES, named
from ff_memories.report.outline import OF_CLAIM, rows

KEPT, LEDGER = Path("docs/data/findings.json"), Path("docs/data/ledger.csv")
BEGIN = "<!-- real models: python docs/tools/findings.py -->"
LED = ("K13", "K16", "K31")  # rows of the headline table that the README shows
NUMBERS = (
    "measured", "low", "high", "n", "judged", "judged_low", "judged_high", "limit", "expected", "sample", "sample_low",
    "sample_high", "baseline", "baseline_low", "baseline_high", "shuffled", "also_random", "random_models",
)  # fmt: skip
TRAINED = ("trained_lowest", "trained_highest")  # of a model's other trainings
Run = Mapping[str, Any]  # what ``of_run`` says of a run
Rows = Sequence[Mapping[str, str]]  # of a file of docs/data
KEYS = ("claim", *NUMBERS, "group", "verdict", "standing", "needed", "reason", "notes")
COLUMNS = (
    "claim", "question", "model", "measured (95 %)", "n", "judged", "chance", "random networks (95 %)", "seen in",
    "trained again", "group",
)  # fmt: skip
DIGITS = 6  # of the numbers that are kept
OPEN = "open"  # the group of claims that are not decided
MANY, RAISED = 1e6, str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
CLAIMS = {claim.id: claim for claim in register()}
PAGE = """\
# What the models show

{scope}

## What we found

A key's [triggers](paper.md#trigger) are the prefixes that give it the highest coefficients. A value agrees if its most
likely token is the one that follows its key's top trigger. The most confident values give theirs the highest
probability. The [residual](paper.md#residual) is what a layer's feed-forward adds to. Upper layers are the last six of
the paper's 16, and here whole layers in the same part of the depth. The demo leaves out tokens that its model was never
trained to predict; *among all types* counts them too.

{counted}

{found}

## Headline numbers

Brackets show what a claim needs, then 95 % intervals. [*Chance*](results.md#statistics-what-is-resampled) is that of
random pairs, memories or residuals, or of a simple guess. *Random networks*: the mean of [untrained
models](paper.md#untrained-model) of each shape; where most have no number, that of all together. Where ? stands beside
a clear interval, they, or too few values, leave it open. Without ReLU, the memories that count are the fewest with 90 %
of the layer's energy.

{headline}

## All claims

![Every claim's number in every model, beside what random networks show, by unit](pictures/claims.svg)

*Coloured marks: the models' numbers with their intervals. Grey band: where one more random network of that model's
shape would lie. ×: chance. Black line: the limit that the claim needs. Diamond: the paper's number, hollow if read off
a figure. A row's shade: its group.*

## By depth

![Four measures over relative depth: agreement over random pairs, the residual that predicts the output, predictions
that a layer keeps, and the correlation of direct and total effects](pictures/layers.svg)

*Dashed lines are random networks. A memory's direct effect is its value's own; the total effect is left once the layers
above have run.*

## How much was looked at

{sizes}

`stories15m` was trained on children's stories, so its perplexity is high here. Perplexities of models with other token
types do not compare. All random networks do worse than giving each token the same probability.

{size}

## What cannot be said

- Whether the paper's own numbers are right: its model and text are others.
{trainings}
{controlled}
- Whether the confident values that agree with a trigger (K17) know their key: always guessing the most frequent token
  agrees as often as the claim asks ([a statistician's review](statistics.md#a-second-review)).
{searched}
- What people would find: a program, the [proxy](paper.md#proxy), labelled patterns and distant compositions.
{rounded}
- Why a number differs from random networks: the scale of the trained weights alone may do it, and of large models too
  few shuffled ones were measured ([a statistician's review](statistics.md)).

## How claims are judged

The interval decides, not the number; what random networks show too says nothing about training
([rules](results.md#verdicts)). To cite one number, copy its row of the [ledger](#ledger) with the commit.

## Ledger

[`data/ledger.csv`](data/ledger.csv) has a row per claim and model, with shares and points as fractions. `judged` is the
number that decides, `needed` what the claim needs of it, `expected` what chance gives; `baseline` is the random
networks' number, and `also_random` of `random_models` show the claim too. The demo's model, [trained
again](results.md#what-training-again-changes), has numbers from `trained_lowest` to `trained_highest`. Claims that
begin with B go beyond the paper.
"""


def of_run(member: Member) -> dict[str, Any]:
    """Return what the page says of a run: what it is, how much it looked at, and its claims' numbers."""
    claims = rows(tables.read(member.folder / "tables/claims.parquet"))
    return {
        "run": member.name,
        "model": named(member.info),
        "weights": _weights(member),
        "text": str(SOURCES.get(member.text.source, member.text.source)),
        "sizes": _sizes(member),
        "claims": [{key: _rounded(row[key]) for key in KEYS} for row in claims],
    }


def _weights(member: Member) -> str:
    """Return what tells a run's weights from others': a digest of its model's files, or else the run's name."""
    files = next((member.info[name] for name in ("model_sha256", "checkpoint_sha256") if member.info.get(name)), "")
    return sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12] if files else member.name


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _sizes(member: Member) -> dict[str, str]:
    """Return the sizes of a run's model and samples, and how well it and its random networks predict the text."""
    read = lambda name: tables.read(member.folder / f"tables/{name}.parquet")
    counts, mutations = dict(read("counts").select("reason", "n").iter_rows()), member.tables["mutations"]
    keys = mutations.select({"layer", "key", "sign"} & set(mutations.columns)).n_unique()
    prefixes = [frames["composition"]["example"].n_unique() for frames in (member.tables, *member.untrained[:1])]
    return {
        "layers": f"{member.info['layers']}",
        "parameters": _grouped(member.info.get("parameters")),
        "token types": f"{member.info['vocab']:,}",
        "tokens searched for triggers": _grouped(counts.get("train_tokens")),
        "triggers per key, at most": _grouped(read("triggers")["rank"].max()),
        "values compared with triggers": f"{member.tables['values'].height:,}",
        "keys in the test that removes a token": f"{keys:,}",
        "triggers of each key in that test, at most": _grouped(mutations["rank"].max()),
        "prefixes to test predictions": f"{prefixes[0]:,}",
        "the same, in random networks": listed([f"{n:,}" for n in prefixes[1:]]),
        "perplexity": _perplexity(member.folder, "same_sample"),
        "perplexity of random networks": _perplexity(member.folder, "untrained-*"),
    }


def _perplexity(folder: Path, models: str) -> str:
    """Return the perplexity in windows of some of a run's models, or its range."""
    files = sorted(folder.glob(f"models/{models}/perplexity.json"))
    found = [json.loads(file.read_text(encoding="utf-8"))["in_windows"]["perplexity"] for file in files]
    ends = sorted({min(found), max(found)}) if found else []
    return " to ".join(_power(end) if end > MANY else number(end) for end in ends)


def _power(value: float) -> str:
    digits, power = f"{value:.1e}".split("e")
    return f"{digits} × 10{str(int(power)).translate(RAISED)}"


def _grouped(count: Any) -> str:
    return NOTHING if count is None else f"{count:,}"


# ---------------------------------------------------------------------------------------------------------------- page


def first(every: Sequence[Run]) -> list[Run]:
    """Return the first run of each model, which the page compares."""
    weights = [run["weights"] for run in every]
    return [run for place, run in enumerate(every) if run["weights"] not in weights[:place]]


def page(every: Sequence[Run], trained: Rows, rounded: Rows, controlled: Rows) -> str:
    """Return docs/findings.md from what ``of_run`` says of each run, and the rows of the studies beside it."""
    known = first(every)
    others = [run for run in every if run not in known]
    sizes = [[name, *(run["sizes"][name] for run in known)] for name in known[0]["sizes"]]
    return PAGE.format(
        scope=_filled(_scope(known), "> "),
        found="\n".join(_filled(said, "- ") for said in found(known)),
        counted=_groups(known),
        headline=headline(known),
        sizes=table(["", *(run["run"] for run in known)], sizes),
        size="\n\n".join(map(_filled, [_by_size(known, every), *(_again(run, known) for run in others)])),
        trainings=_trainings(trained),
        controlled=_controlled(known, controlled),
        searched=_searched(known),
        rounded=_rounding(rounded),
    )


def _scope(known: Sequence[Mapping[str, Any]]) -> str:
    each = listed([f"{run['run']} is {run['model']} on {run['text']}" for run in known])
    return (
        "Claims of Geva et al., Transformer Feed-Forward Layers Are Key-Value Memories (2021), on models that are not "
        f"the paper's: {each}. Each was trained once. Of each claim we ask: does the model show it, and do random "
        "networks of its shape? Numbers in a row are in this order."
    )


def found(known: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sentences on what was found: the claims of a run's first screen, each with its control.

    The paper's numbers stand in the headline table.
    """
    rows = [_row(known, claim) for claim in register() if claim.shown == FIRST]
    told = [[row for row in of if row["measured"] is not None] for of in rows]
    marks = [" ".join(wording.WORDS[row["standing"]]["mark"] for row in of) for of in told]
    beside = lambda of: [part for part in wording.control(of).split("; ") if not part.startswith("paper: ")]
    return [
        "; ".join([f"{mark}: {wording.sentence(of)}", *beside(of)]) + "."
        for mark, of in zip(marks, told, strict=True)
        if of
    ]


def _by_size(known: Sequence[Run], every: Sequence[Run]) -> str:
    """Return which headline numbers rise or fall with size among the models that read one text."""
    parameters = lambda run: int(run["sizes"]["parameters"].replace(",", "").replace(NOTHING, "0"))
    same = sorted((run for run in known if run["text"] == known[0]["text"]), key=parameters)
    again = [run for run in every if run not in known and run["weights"] in {one["weights"] for one in same}]
    told, elsewhere, compared = [], list[str](), 0
    for claim in (claim for claim in register() if claim.headline):
        of = _row(same, claim)
        if any(row[name] is None for row in of for name in ("measured", "low", "high")):
            continue
        compared += 1
        numbers = [row["measured"] for row in of]
        rises = all(row["high"] < larger["low"] for row, larger in pairwise(of))
        if rises or all(row["low"] > larger["high"] for row, larger in pairwise(of)):
            told.append(f"{claim.words} ({joined(numbers, claim.unit)})")
            elsewhere += [measured(row["measured"], claim.unit) for row in _row(again, claim)]
    said = (
        f"From {' to '.join(run['run'] for run in same)}, by size, {len(told)} of {compared} headline numbers with "
        f"intervals go one way, each beyond its interval: {'; '.join(told) or 'none'}. The others show no order. "
    )
    if again and told:
        names = listed([run["run"] for run in again])
        said += f"On another text ({names}), these are {listed(elsewhere)}: the text may do what size seems to do. "
    return said + f"Data, training, bits and samples differ too, and {len(same)} models are no law of size."


def _again(run: Run, known: Sequence[Run]) -> str:
    """Return what another text changes: a run beside the one of the same model."""
    before = next(one for one in known if one["weights"] == run["weights"])
    judged = lambda row: row["standing"] in wording.GROUPS and row["standing"] != "check"
    old = {row["claim"]: row for row in _rows(before) if judged(row)}
    both = [(old[row["claim"]], row) for row in _rows(run) if judged(row) and row["claim"] in old]
    moved = [(was, now) for was, now in both if was["standing"] != now["standing"]]
    decided = [_moved(was, now) for was, now in moved if now["standing"] != OPEN]
    names = "values compared with triggers", "tokens searched for triggers", "prefixes to test predictions"
    sizes = ", ".join(f"{run['sizes'][name]} of {before['sizes'][name]} {name}" for name in names)
    drew = any(wording.OWN_TEXT in (row["notes"] or "") for row in run["claims"])
    random = [max(row["random_models"] or 0 for row in one["claims"]) for one in (run, before)]
    return (
        f"The run {run['run']} has the model of {before['run']} on another text: perplexity "
        f"{run['sizes']['perplexity']}. Its sizes are others: {sizes}, {random[0]} of {random[1]} random networks. "
        f"Of {len(both)} claims judged in both, these stand in another group there: {'; '.join(decided) or 'none'}; "
        f"{len(moved) - len(decided)} more become {wording.GROUPS[OPEN]['mark']}."
        + (" The model drew next tokens itself." if drew else "")
    )


def _moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    claim, marks = CLAIMS[new["claim"]], [wording.WORDS[row["standing"]]["mark"] for row in (old, new)]
    return f"{claim.words} ({' to '.join(marks)}; {joined([old['measured'], new['measured']], claim.unit)})"


def _trainings(rows: Rows) -> str:
    """Return what is known of how numbers differ between trainings."""
    said = "- How numbers differ between trainings: intervals resample within one model."
    if rows:
        most, of = trainings.far_apart(rows), len(trainings.compared(rows))
        far = trainings.of_samples_alone(len(trainings.SEEDS))[1]
        said += (
            f" In [{len(trainings.SEEDS)} short trainings](results.md#what-training-again-changes) of the demo's, "
            f"{len(most)} of {of} numbers spread over {far:.2g} times as wide as within one run (chance: "
            f"{trainings.RARE * of:.0f}), up to {max(most.values(), default=0):.0f} times; "
            f"{trainings.in_other_groups(rows)}."
        )
    return textwrap.fill(said, 120, subsequent_indent="  ", break_on_hyphens=False)


def _controlled(known: Sequence[Run], rows: Rows) -> str:
    """Return what is not known of the last token, with the margin of a trigger that is cut one token earlier."""
    claim, runs = CLAIMS["K2"], [run["run"] for run in known]
    numbers = [float(row["controlled"]) for row in rows if row["claim"] == claim.id and row["run"] in runs]
    said = "- Whether coefficients depend on a trigger's last token more than any maximum does"
    if numbers:
        said += f": one token earlier, only {joined(numbers, claim.unit)} more of the coefficient are left than at a "
        said += "random earlier token"
    said += " ([a control](results.md#controls))."
    return textwrap.fill(said, 120, subsequent_indent="  ", break_on_hyphens=False)


def _searched(known: Sequence[Run]) -> str:
    """Return what is not known of patterns, with K6 on the baselines' sample of the sentences and on all."""
    rows = [row for row in _row(known, CLAIMS["K6"]) if None not in (row["sample"], row["measured"])]
    pairs = [f"{joined([row['sample'], row['measured']], CLAIMS['K6'].unit)} in {row['run']}" for row in rows]
    said = (
        "- How many keys would have a pattern in a text of the paper's size: K6 to K8 rise with the text that is "
        f"searched. On a random network's share of the sentences, and on all, K6 is {listed(pairs)}."
    )
    return textwrap.fill(said, 120, subsequent_indent="  ", break_on_hyphens=False)


def _rounding(rows: Rows) -> str:
    """Return what is not known of 4-bit weights, and what they changed in the models that were rounded."""
    said = "- What 4-bit weights change in `smollm2` and `qwen`."
    if rows:
        each = [f"{rounding.beyond(rows, 'Q4_1', run)} in {run}" for run in dict.fromkeys(row["run"] for row in rows)]
        said += " Of two small models, [rounding to 4 bits](performance.md#what-fewer-bits-change) moves numbers "
        said += f"beyond their intervals: {listed(each)}, whose values stayed in float32. Q4_K_M was not tried."
    return textwrap.fill(said, 120, subsequent_indent="  ", break_on_hyphens=False)


def _groups(known: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of how many of the paper's claims stand in each group, of each run."""
    counts = [wording.counts({row["claim"]: row for row in _rows(run)}) for run in known]
    lines = [
        [f"{words['mark']} {words['word']}", *(f"{of.get(name, 0)}" for of in counts)]
        for name, words in wording.GROUPS.items()
        if any(of.get(name) for of in counts)
    ]
    papers = sum(not claim.beyond for claim in register())
    left = [papers - sum(of.values()) for of in counts]
    lines.append(["not judged, or true by construction", *map(str, left)])
    return table(["claims of the paper", *(run["run"] for run in known)], lines)


def headline(known: Sequence[Mapping[str, Any]], only: Sequence[str] = ()) -> str:
    """Return the headline table, or the rows of some claims."""
    out = []
    for claim in (claim for claim in register() if claim.headline and (not only or claim.id in only)):
        of = _row(known, claim)
        random = [row["baseline"] for row in of]
        told = NOTHING if random == [None] * len(of) else joined(random, claim.unit)
        other = claim.judged_as != claim.measured_as
        needs = "" if other else f" ({of[0]['needed'].replace('at least', '≥').replace('more than', '>')})"
        out.append([claim.words + needs, claim.paper, *(_here(row, claim.unit) for row in of), told])
    head = ["question", "paper", *(run["run"] for run in known), "random networks"]
    return table(head, [[_plain(cell) for cell in row] for row in out])


def _here(row: Mapping[str, Any], unit: str) -> str:
    """Return the mark of a claim's group, the run's number with its interval, and what chance gives."""
    if row["measured"] is None:
        return wording.word(row["standing"])
    chance = "" if row["expected"] is None else f"; chance {measured(row['expected'], unit)}"
    mark = wording.WORDS[row["standing"]]["mark"]
    return f"{mark} {_with_interval(row, '', unit)}{chance}"


def _with_interval(row: Mapping[str, Any], of: str, unit: str) -> str:
    """Return a number of a row with its interval: the measured one, or that ``of`` names."""
    value, start = (row[of], f"{of}_") if of else (row["measured"], "")
    interval = "" if value is None else spread(row[f"{start}low"], row[f"{start}high"], unit)
    return measured(value, unit) + (f" ({interval})" if interval else "")


def ledger(kept: Rows) -> str:
    """Return the table that the website shows of the rows of docs/data/ledger.csv, rounded and in words."""
    groups, out = {words["word"]: name for name, words in wording.WORDS.items()}, []
    for cells in kept:
        claim = CLAIMS[cells["claim"]]
        numbers = {name: float(cells[name]) if cells[name] else None for name in (*NUMBERS, *TRAINED)}
        counts = {name: int(cells[name] or 0) for name in ("also_random", "random_models")}
        row: dict[str, Any] = {**numbers, **counts, "group": groups[cells["group"]]}
        other = row["judged"] is not None and claim.judged_as != claim.measured_as
        judged = [_with_interval(row, "judged", claim.judged_unit)] if other else []
        shown = [
            claim.id,
            claim.words,
            cells["model"],
            _with_interval(row, "", claim.unit),
            _grouped(row["n"] and int(row["n"])),
            "; ".join([*judged, *filter(None, [cells["needed"]])]),
            "" if row["expected"] is None else measured(row["expected"], claim.unit),
            "" if row["baseline"] is None else _with_interval(row, "baseline", claim.unit),
            training.in_random(row) if row["judged"] is not None else "",
            spread(row["trained_lowest"], row["trained_highest"], claim.unit),
            cells["group"],
        ]
        out.append([_plain(cell) for cell in shown])
    return table(list(COLUMNS), out)


def ledger_csv(known: Sequence[Mapping[str, Any]], again: Rows) -> str:
    """Return docs/data/ledger.csv: the ledger's numbers, shares as fractions; ``again``: the demo's other trainings."""
    file, trained = io.StringIO(), {row["claim"]: [row["lowest"], row["highest"]] for row in again}
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["claim", "question", "unit", "judged_unit", "model", *NUMBERS, *TRAINED, "needed", "group"])
    for claim in register():
        for run, row in zip(known, _row(known, claim), strict=True):
            about = claim.id, claim.words, claim.unit, claim.judged_unit, run["run"]
            needed, ends = row["needed"] if claim.limit else "", trained.get(claim.id) if run["run"] == "demo" else None
            numbers = *(row[name] for name in NUMBERS), *(ends or ("", ""))
            writer.writerow([*about, *numbers, needed, wording.word(row["standing"])])
    return file.getvalue()


def _rows(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a run's rows with what the register says of each claim."""
    out = []
    for row in run["claims"]:
        claim = CLAIMS[row["claim"]]
        of_claim = {name: getattr(claim, name) for name in OF_CLAIM}
        out.append(of_claim | {"run": run["run"], "paper_value": claim.paper} | row)
    return out


def _row(known: Sequence[Mapping[str, Any]], claim: Claim) -> list[dict[str, Any]]:
    """Return each run's row of a claim."""
    return [next(row for row in _rows(run) if row["claim"] == claim.id) for run in known]


def _filled(text: str, start: str = "") -> str:
    """Return a paragraph, an item or a quotation as lines that fit the page."""
    after = start if start == "> " else " " * len(start)
    return textwrap.fill(start + _plain(text), 120, subsequent_indent=after, break_on_hyphens=False)


def _plain(text: str) -> str:
    """Return text escaped for a Markdown table."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", text).replace("\n", " ")


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs/findings.md")
    parser.add_argument("--results", type=Path, nargs="+", help=f"runs' folders; default: the data in {KEPT}")
    args = parser.parse_args(argv)
    root = args.out.parents[1]
    readme = root / "README.md"
    try:
        runs = members(args.results) if args.results else []
        known = [of_run(run) for run in runs] or json.loads((root / KEPT).read_text(encoding="utf-8"))
        studies = (root / study.KEPT for study in (trainings, rounding, controls))
        again, *others = (read_rows(kept) if kept.is_file() else [] for kept in studies)
        new, kept = page(known, again, *others), ledger_csv(known, again)
        leading = replaced(readme.read_text(encoding="utf-8"), BEGIN, headline(first(known), LED))
    except (OSError, ValueError, KeyError, TypeError, IndexError, StopIteration, UserError) as error:
        why = f"{str(error) or repr(error)}; {KEPT} may lack a claim: run and adopt all runs first"
        sys.exit(f"{args.out}: cannot be written: {why}")
    if runs and not args.check:
        write_whole(root / KEPT, re.sub(r"\n {4,}|\n {3}(?=[}\]])", " ", json.dumps(known, indent=1)) + "\n")
        write_whole(root / pictures.CLAIMS, pictures.claims(first(known)))
        names = {run["run"] for run in first(known)}
        write_whole(root / pictures.LAYERS, pictures.layers([member for member in runs if member.name in names]))
    renew(args.out, new, args.check)
    renew(root / LEDGER, kept, args.check)
    renew(readme, leading, args.check)


if __name__ == "__main__":
    main()
