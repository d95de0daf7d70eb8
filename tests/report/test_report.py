"""Test Tables 1 to 3 and the report: hostile text stays text, and equal inputs give equal pages."""

import csv
import io
import json
import re
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from reports import (
    ANNOTATIONS,
    CONFIG,
    HOSTILE,
    LABELS,
    TRIGGERS,
    Tags,
    annotation,
    first_table,
    frame,
    label,
    made_report,
    texts,
    trigger,
    value,
)

from ff_memories.base.job_costs import SPENT, Cost, costs, spent
from ff_memories.base.machine import hardware
from ff_memories.base.progress import duration
from ff_memories.base.text import cell, csv_text, escape_invisible, latex
from ff_memories.figures.registry import FIGURES
from ff_memories.judge.numbers import measured, number, spread
from ff_memories.judge.register import register
from ff_memories.report.html import inline, render
from ff_memories.report.outline import SECTIONS, part_of, section_of
from ff_memories.report.tables123 import agreement, table2, table3, write_table1, write_table2, write_table3

NEXT: Any = SimpleNamespace(values=SimpleNamespace(target="next"))  # a config


def test_table2_shows_the_first_agreeing_trigger_and_marks_its_next_token():
    (row,) = table2(frame("values", value(7, agreeing=1)), TRIGGERS, texts(), "next")
    assert row["passage"].marked == HOSTILE[3] and row["agrees"] and row["precision"] == 0.5
    assert row["passage"].before == " ".join([HOSTILE[0], HOSTILE[1], "a[U+202E]b"])


def test_table2_falls_back_on_the_top_trigger_and_marks_its_last_token_where_values_are_compared_with_it():
    (row,) = table2(frame("values", value(9)), TRIGGERS, texts(), "next")
    assert row["passage"].marked == "a[U+202E]b" and not row["agrees"]
    assert "does not agree" in render("tables123/table2.html.j2", rows=[row], scope="paper", target="next")
    (row,) = table2(frame("values", value(6, agreeing=1)), TRIGGERS, texts(), "last")
    assert (row["passage"].marked, row["agrees"]) == ("a[U+202E]b", True)


def test_table2_takes_the_most_probable_first_and_keys_without_triggers_as_they_are():
    values = frame("values", value(4, 0.1, key=0), value(5, 0.9, key=1, triggers=0), value(6, 0.5, key=2))
    rows = table2(values, TRIGGERS, texts(), "next", most=2)
    assert [row["name"] for row in rows] == ["1", "2"]
    assert rows[0]["precision"] is None and rows[0]["passage"] is None
    assert "no triggers" in render("tables123/table2.html.j2", rows=rows, scope="paper", target="next")


def test_table1_takes_the_pattern_that_covers_most_and_the_people_before_the_proxy():
    proxy = [annotation([1, 2, 3], "wide", key=1), annotation([1], "narrow", key=0)]
    people = annotation([1, 2], "theirs", "ann", key=0)
    labels = frame("pattern_labels", *(label(r, a, k) for a, k in (("proxy", 1), ("ann", 0)) for r in (1, 2, 3, 4)))
    (row,) = first_table(frame("annotations", *proxy), labels, TRIGGERS)
    assert (row["pattern"], row["mark"], row["covered"], row["shown"]) == ("wide", "automatic proxy", 3, 4)
    (row,) = first_table(frame("annotations", *proxy, people), labels, TRIGGERS)
    assert (row["pattern"], row["mark"]) == ("theirs", "")
    assert [p.marked for p in row["passages"]] == [HOSTILE[1], "a[U+202E]b"]


def test_table1_shows_a_shallow_and_a_semantic_key_of_lower_and_of_upper_layers():
    """The clearest pattern has the largest lead in coverage over the key's patterns of the other type."""
    semantic = {"type": "semantic"}
    held = [
        annotation([1, 2, 3], "ends a", key=1), annotation([1, 2, 3], "ends b", key=2),
        annotation([1, 2], "topic b", key=2, pattern=2) | semantic, annotation([3], "topic c", key=3) | semantic,
        annotation([1], "ends d", layer=9), annotation([1, 3], "topic e", layer=16, key=1) | semantic,
    ]  # fmt: skip
    rows = first_table(frame("annotations", *held), LABELS, TRIGGERS)
    assert [row["pattern"] for row in rows] == ["ends a", "topic c", "ends d", "topic e"]
    assert [row["type"] for row in rows] == ["shallow", "semantic"] * 2
    rows = first_table(frame("annotations", *held[:2]), LABELS, TRIGGERS)
    assert [row["pattern"] for row in rows] == ["ends a"]


def test_tables_1_and_3_say_once_that_no_person_found_their_patterns():
    rows = first_table(ANNOTATIONS, LABELS, TRIGGERS)
    found = table3(ANNOTATIONS, TRIGGERS, texts(), 5)
    for kind in ("html", "tex"):
        first, third = (f"tables123/table{n}.{kind}.j2" for n in (1, 3))
        for made in (render(first, rows=rows, scope="paper"), render(third, key=found, scope="paper")):
            assert made.count("automatic proxy") == 1


def test_table2_says_how_many_keys_agree_by_id_and_folded_where_the_run_has_both():
    plain = frame("values", *(value(4 + i, key=i) | {"agrees": i == 0} for i in range(4)))
    both = plain.with_columns(agrees_folded=pl.Series([True, True, False, True]))
    unknown = both.with_columns(pl.lit(None, pl.Boolean).alias(name) for name in ("agrees", "agrees_folded"))
    assert agreement(plain) is agreement(both.head(0)) is agreement(unknown) is None
    assert agreement(pl.concat([both, unknown])) == (0.25, 0.75)
    said = render("tables123/table2.html.j2", rows=[], scope="paper", target="next", agreement=(0.25, 0.75))
    assert "25 % have a value that agrees with the top trigger; 75 % if" in re.sub("[\u202f\u00a0]", " ", said)


def test_table3_takes_the_key_with_both_types_that_cover_most_and_the_people_before_the_proxy():
    both = [annotation([1], key=1), annotation([2], key=1, pattern=2) | {"type": "semantic"}]
    proxy = [annotation([1, 2, 3], "wide", key=2), *both]
    triggers = frame("triggers", *(trigger(rank, 0, rank + 1, 5, key=key) for key in (1, 2) for rank in (1, 2, 3)))
    found = table3(frame("annotations", *proxy), triggers, texts(), shown=2)
    assert (found["name"], found["mark"]) == ("1", "automatic proxy")
    assert found["patterns"] == [(1, "ends", "shallow"), (2, "ends", "semantic")]
    assert [(rank, held) for rank, held, _ in found["prefixes"]] == [(1, [1]), (2, [2])]
    assert [p.marked for *_, p in found["prefixes"]] == [HOSTILE[1], "a[U+202E]b"]
    people = annotation([1, 2], "theirs", "ann", key=2)
    found = table3(frame("annotations", *proxy, people), triggers, texts(), shown=3)
    assert (found["name"], found["mark"], [held for _, held, _ in found["prefixes"]]) == ("2", "", [[1], [1], []])
    read = {"annotations": frame("annotations", *proxy, people), "triggers": triggers}
    config: Any = SimpleNamespace(patterns=SimpleNamespace(top=3))
    _, text, _ = write_table3(read, texts(), {"scope": "paper"}, config)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["descriptions"] for row in rows] == ["theirs (shallow)"] * 2 + [""]
    assert {row["annotator"] for row in rows} == {"people"}
    assert r"1 & \multicolumn{2}{l}{theirs (shallow)} \\" in render("tables123/table3.tex.j2", key=found, scope="paper")


def test_hostile_text_is_text_in_html():
    rows = table2(frame("values", *(value(4 + i, key=i) for i in range(7))), TRIGGERS, texts(), "next")
    html = render("tables123/table2.html.j2", rows=rows, scope="paper", target="next")
    html += render("tables123/table1.html.j2", rows=first_table(ANNOTATIONS, LABELS, TRIGGERS), scope="paper")
    tags = {tag for tag, _ in Tags(html).found}
    assert not tags & {"script", "img", "b"} and "&lt;script&gt;" in html and "{{7*7}}" in html
    assert "\u202e" not in html and "[U+202E]" in html


def test_no_cell_of_a_csv_file_is_a_formula():
    values = frame("values", *(value(4 + i, key=i) for i in range(7)))
    _, text, _ = write_table2({"values": values, "triggers": TRIGGERS}, texts(), {"scope": "paper"}, NEXT)
    read = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in read} == {len(read[0])}
    assert read[0][:4] == ["layer", "key", "prediction", "top_probability"]
    assert not [c for row in read[1:] for c in row if c[:1] in ("=", "@", "+", "-")]
    assert {row[2] for row in read} >= {"'=cmd()", "'@SUM(1)", HOSTILE[1]}
    assert (cell(" =1"), cell(-0.5), cell(None), cell("\t=1")) == ("' =1", -0.5, "", "[U+0009]=1")
    assert csv_text(["a"], [['x"y']]) == 'a\n"x""y"\n'


def test_no_token_is_a_latex_command():
    assert latex("\\input{x}") == r"\textbackslash{}input\{x\}"
    assert latex("50% of $x_1^2 & #~") == r"50\% of \$x\_1\textasciicircum{}2 \& \#\textasciitilde{}"
    assert latex("a--b") == "a{-}{-}b"


def test_invisible_characters_are_spelled_out_and_others_left_alone():
    assert escape_invisible("a\u200bb\u2066\x00") == "a[U+200B]b[U+2066][U+0000]"
    assert escape_invisible("naïve 日本 ∑") == "naïve 日本 ∑"


def test_ids_in_figures_cannot_collide_and_nothing_in_them_runs():
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    source = (f'<svg {spaces} width="10" height="5"><script>x()</script><defs><clipPath id="c"/></defs>'
              '<g onclick="x()" clip-path="url(#c)" fill="url(\'#c\')">'
              '<use xlink:href="#c" aria-label="part"/></g></svg>')  # fmt: skip
    made = inline(source, "figure3", 'what it "shows" <now>')
    tags = Tags(made)
    assert not tags.open and "script" not in {tag for tag, _ in tags.found} and "onclick" not in made
    assert tags.found[0][1]["aria-label"] == 'what it "shows" <now>'
    assert 'id="figure3-c"' in made and made.count("url(#figure3-c)") == 2 and '"#figure3-c"' in made


def test_every_claim_and_figure_has_its_place_in_the_outline():
    shown = [part for section in SECTIONS for part in section.parts]
    assert set(shown) == {*FIGURES, "table1", "table2", "table3"} and len(shown) == len(set(shown))
    for claim in register():
        (section,) = (s for s in SECTIONS if s.number == section_of(claim))
        assert part_of(claim) is None or part_of(claim) in section.parts, claim.id


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (measured(0.0352, "share"), "3.52 %"), (measured(-0.5, "change"), "−50 %"), (measured(None, "share"), "–"),
        (measured(10.0, "layer"), "layer 10"), (measured(9400.0, "factor"), "9,400 ×"), (number(0.0), "0"),
        (number(3.6e-6), "3.60e−06"), (number(65536), "65,536"), (spread(-0.1, 0.02, "points"), "−10 to 2"),
        (spread(None, 1.0, "share"), ""), (number(0.0004), "0.0004"), (measured(-0.01, "points"), "−1 point"),
    ],
)  # fmt: skip
def test_numbers_are_shown_in_their_unit(shown, wanted):
    assert shown == wanted


def test_the_report_is_one_sound_page_and_the_same_every_time_and_names_no_place_of_the_machine(tmp_path):
    code, path = made_report(tmp_path)
    html = path.read_text()
    tags = Tags(html)
    assert code == 0 and not tags.open and "/home/me" not in html and str(tmp_path) not in html
    assert made_report(tmp_path)[1].read_bytes() == html.encode()
    names = [tag for tag, _ in tags.found]
    assert "script" not in names and "link" not in names and names.count("h1") == 1
    levels = [int(tag[1]) for tag in names if re.fullmatch(r"h\d", tag)]
    assert all(b <= a + 1 for a, b in pairwise(levels))
    ids = [attrs["id"] for _, attrs in tags.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in tags.found if tag == "a"]
    assert {link[1:] for link in links if link[0] == "#"} <= set(ids)
    assert "../figure3.pdf" in links and not [link for link in links if link.startswith(("http", "/"))]
    assert all("scope" in attrs for tag, attrs in tags.found if tag == "th")
    assert dict(tags.found)["html"]["lang"] == "en"


def test_the_report_shows_every_claim_once_and_leads_to_it_from_its_section(tmp_path):
    html = made_report(tmp_path)[1].read_text()
    above = html[: html.index('id="ledger"')]
    for claim in register():
        assert len(re.findall(f'class="verdict \\w+" href="#{claim.id}"', above)) == 1
        assert html.count(f'id="{claim.id}"') == 1
    assert html.index('id="answers"') < html.index('id="section-3.2"') < html.index('id="section-5.2"')
    assert "12,345" in html and "b" * 64 in html and "snakemake --cores all --resources gpu=1 --force" in html


def test_methods_follow_the_config(tmp_path):
    html = " ".join(made_report(tmp_path)[1].read_text().split())
    assert "top 50 triggers" in html and "first 7 sentences" in html and "5.2 use up to" in html
    other = CONFIG | {"mutations": CONFIG["mutations"] | {"top": 20}}
    other["composition"] = CONFIG["composition"] | {"sample_file": "sample.jsonl"}
    html = " ".join(made_report(tmp_path, config=other)[1].read_text().split())
    assert "top 20 triggers" in html and "5.2 use validation-text prefixes from the file that the config names" in html


def test_costs_are_summed_by_rule_from_the_logs_of_jobs_that_ended_well(tmp_path):
    for i, memory in enumerate((100, 300)):
        (tmp_path / f"logs/{i}-of-2").mkdir(parents=True)
        cost = {"seconds": 10, "processor_seconds": 8, "peak_mib": memory}
        (tmp_path / f"logs/{i}-of-2/shard.log").write_text(f"read\n{SPENT}{json.dumps(cost)}\n")
    (tmp_path / "logs/values.log").write_text("error: no space left\n")
    assert costs(tmp_path / "logs") == [Cost("shard", 2, 20, 16, 300)]
    line = spent(time.monotonic() - 5)
    assert line.startswith(SPENT) and json.loads(line.removeprefix(SPENT))["seconds"] >= 5
    assert [duration(s) for s in (0.04, 59.96, 185, 7800)] == ["0.0 s", "1 min 00 s", "3 min 05 s", "2 h 10 min"]


def test_the_machine_is_named_with_its_gpus_and_where_nothing_tells_of_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus = lambda: [fact for name, fact in hardware() if name == "GPU"]
    assert gpus() == [] and {"processor", "cores", "system"} <= dict(hardware()).keys()
    for tool, named in (("echo A, 4 MiB; echo B, 8 MiB", ["A, 4 MiB", "B, 8 MiB"]), ("echo none; exit 6", [])):
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{tool}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
        assert gpus() == named
    monkeypatch.setattr(Path, "read_text", lambda *given, **more: (_ for _ in ()).throw(OSError()))
    assert dict(hardware())["processor"] and "instructions" not in dict(hardware())  # as where there is no /proc


def test_tables_name_a_key_of_negative_coefficients_by_its_mark():
    folded = pl.lit(5, pl.UInt16)
    found, labels, triggers = (table.with_columns(key=folded) for table in (ANNOTATIONS, LABELS, TRIGGERS))
    found = found.unique(["annotator", "layer", "key", "pattern"])
    rows = first_table(found, labels, triggers, neurons=3)
    assert rows and {row["name"] for row in rows} == {"2−"}
    tex = render("tables123/table1.tex.j2", rows=rows, scope="model")
    assert "_{2-}" in tex and "surrogate" not in tex
    info = {"scope": "model", "layers": 16, "signs": 2, "neurons": 3}
    read = {"annotations": found, "pattern_labels": labels, "triggers": triggers}
    head, first, *_ = write_table1(read, texts(), info, NEXT)[1].splitlines()
    assert head.startswith("layer,key,sign,") and first.startswith("1,2,-1,")
    values = frame("values", value(4, key=5))
    (row,) = table2(values, TRIGGERS, texts(), "next", neurons=3)
    _, text, _ = write_table2({"values": values, "triggers": TRIGGERS}, texts(), info, NEXT)
    assert row["name"] == "2−" and text.splitlines()[1].startswith("1,2,-1,")


def test_the_numbers_of_all_figures_stand_in_one_table_in_the_reports_order(tmp_path):
    assert made_report(tmp_path)[0] == 0
    plotted = pl.read_parquet(tmp_path / "report" / "plotted.parquet")
    assert plotted.rows() == [("figure2", 1, 0.5, None), ("figure3", 1, None, 0.5)]


def test_a_model_of_transformers_is_no_surrogate_and_no_stand_in(tmp_path):
    more = {"model_type": "llama", "gated": True, "signs": 2, "neurons": 32, "activation": "silu", "final_norm": True,
            "start_token": "<s>", "model_sha256": {"model.safetensors": "ab" * 32}}  # fmt: skip
    code, page = made_report(tmp_path, "model", card=more)
    assert code == 0
    html, text = page.read_text(), (tmp_path / "summary.md").read_text()
    for page in (html, text):
        page = re.sub("<style>.*?</style>", "", page, flags=re.DOTALL).replace("&#39;", "'")
        assert "urrogate" not in page and "stand-in" not in page and "reproduced" not in page
        assert "not the paper's model" in page.lower() and "nothing about the paper's numbers" in page
    assert "−v" in html, "what a memory of negative coefficients is"
    assert "32 keys and values per layer" in html and "after the token &lt;s&gt;" in html and "abab" in html
