"""``triggers.keys`` and ``gallery.keys``: a run that looks at some memories has their rows of the run over all."""

import polars as pl
import pytest
import transformers_run
from factories import words
from pipeline import config, run_steps, write_inputs
from polars.testing import assert_frame_equal

from ff_memories import config as configs
from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.paper.keys import memory_selection

LISTED = {1: [3, 0], 3: [7, 11, 2]}
SAME = ("triggers", "values", "promoted", "examples", "composition", "refinement")  # shading runs in other batches
BY_KEY = [name for name in SAME if "key" in tables.TABLES[name].columns]


def a_run(folder, name):
    """Write the inputs of a small run; return its config, d_m and how many signs count."""
    if name == "fairseq":
        write_inputs(folder, words(44))
        return config(), 24, 1
    return transformers_run.prepare(folder, name), 160, 2 if name == "llama" else 1


def frames_of(folder, settings, out):
    made = run_steps(folder, settings, out=out)
    frames = {path.stem: tables.read(path) for path in made.glob("*.parquet")}
    counts = {p.stem: dict(pl.read_parquet(p).select("reason", "n").iter_rows()) for p in made.glob("counts/*.parquet")}
    return frames, counts


@pytest.fixture(scope="module", params=["fairseq", "gpt2", "llama"])
def full(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("full")
    settings, neurons, signs = a_run(folder, request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder, settings, neurons, signs, frames_of(folder, settings, "full")[0]


def same(frame, expected, settings):
    """Compare rows; a model of `transformers` projects only the values asked for, which sums in another order."""
    exact = "folder" not in settings["model"]
    assert_frame_equal(frame, expected, check_exact=exact, rel_tol=1e-5, abs_tol=1e-6)


def with_keys(settings, asked, gallery=None):
    out = {**settings, "triggers": {**settings["triggers"], "keys": asked}}
    return out | {"gallery": {"keys": gallery}} if gallery is not None else out


@pytest.mark.parametrize("asked", [9, LISTED], ids=["sample", "list"])
def test_rows_are_those_of_the_run_over_all_memories(full, asked):
    folder, settings, neurons, signs, whole = full
    frames, counts = frames_of(folder, with_keys(settings, asked), "some")
    looked = frames["values"].select("layer", "key", memory=pl.col("key").cast(pl.Int64) % neurons)
    by_layer = {layer: sorted(set(part["memory"])) for (layer,), part in looked.group_by("layer")}
    if asked == LISTED:
        assert by_layer == {layer: sorted(own) for layer, own in LISTED.items()}
    else:
        assert [len(by_layer[layer]) for layer in (1, 2, 3)] == [9] * 3
        assert len({tuple(own) for own in by_layer.values()}) == 3  # each layer has its own draw
    assert len(looked) == signs * sum(map(len, by_layer.values()))
    for name in SAME:
        expected = whole[name]
        if name in BY_KEY:
            expected = expected.join(looked, on=["layer", "key"], how="semi", maintain_order="left")
            assert 0 < expected.height < whole[name].height
        same(frames[name], expected, settings)
    for name in ("mutations", "shading"):
        assert frames[name].height and not frames[name].join(looked, on=["layer", "key"], how="anti").height
    fires = frames["triggers"].select("layer", "key").n_unique()
    assert counts["triggers"]["keys"] == len(looked)
    assert counts["triggers"]["keys_that_never_fire"] == len(looked) - fires
    assert counts["mutations"]["keys_without_triggers"] == len(looked) - fires


def test_the_gallery_may_show_fewer(full):
    folder, settings, _, signs, whole = full
    frames, _ = frames_of(folder, with_keys(settings, 9, 4), "fewer")
    shown = frames["promoted"].select("layer", "key").unique()
    changed = frames["causal"].select("layer", pl.col("key").cast(pl.Int64) % (len(whole["values"]) // 3 // signs))
    assert 3 * 4 * signs <= len(shown) <= 3 * 4 * signs + changed.n_unique() * signs
    assert frames["causal"].height
    assert not frames["causal"].join(shown, on=["layer", "key"], how="anti").height
    assert not shown.join(frames["values"], on=["layer", "key"], how="anti").height
    assert set(frames["shading"].select("layer", "key").iter_rows()) <= set(shown.iter_rows())
    expected = whole["promoted"].join(shown, on=["layer", "key"], how="semi", maintain_order="left")
    same(frames["promoted"], expected, settings)


class Seed:
    seed = 1


def test_a_smaller_sample_is_part_of_a_larger_one_and_seeds_draw_others():
    few, many = (memory_selection.looked_at(n, 4, 500, 1, Seed) for n in (20, 90))
    assert [layer for layer, _ in few] == [layer for layer in range(1, 5) for _ in range(20)]
    assert set(few) < set(many) and many == sorted(set(many))

    class Other:
        seed = 2

    assert memory_selection.looked_at(20, 4, 500, 1, Other) != few
    assert memory_selection.looked_at(None, 4, 500, 1, None) is None
    both_signs = [(1, 2), (1, 5), (1, 12), (1, 15), (2, 0), (2, 10)]
    assert memory_selection.looked_at({1: [5, 2], 2: [0]}, 2, 10, 2, None) == both_signs


@pytest.mark.parametrize(
    "asked, says",
    [
        (501, "501 is more than the 500 memories"),
        ({5: [1]}, "there is no layer 5"),
        ({2: [3, 500]}, "layer 2 has no memory 500"),
    ],
)
def test_memories_that_do_not_exist_are_refused(asked, says):
    with pytest.raises(UserError, match=says):
        memory_selection.looked_at(asked, 4, 500, 1, Seed)
    shown = pl.DataFrame({"layer": [1, 2], "key": [1, 3]})
    with pytest.raises(UserError, match=says):
        memory_selection.shown(asked, shown, shown.clear(), 4, 500, 1)


def test_the_gallery_shows_only_what_the_run_looked_at():
    shown = pl.DataFrame({"layer": [1, 1, 2], "key": [1, 501, 3]})
    assert memory_selection.shown({1: [1]}, shown, shown.clear(), 4, 500, 1).rows() == [(1, 1), (1, 501)]
    assert memory_selection.shown(7, shown, shown.clear(), 4, 500, 1).rows() == shown.rows()
    with pytest.raises(UserError, match="did not look at memory 4 of layer 2"):
        memory_selection.shown({1: [1], 2: [4]}, shown, shown.clear(), 4, 500, 1)


def test_a_sample_for_the_gallery_gains_the_memories_that_were_changed():
    every = pl.DataFrame({"layer": [1] * 1000, "key": list(range(1000))})
    changed = pl.DataFrame({"layer": [1, 1, 2], "key": [7, 508, 9]})  # the run looks at layer 1 alone
    sample = memory_selection.shown(3, every, changed.clear(), 4, 500, 1)
    shown = memory_selection.shown(3, every, changed, 4, 500, 1)
    more = [(1, key) for memory in (7, 8) for key in (memory, memory + 500)]
    assert shown.rows() == sorted({*sample.rows(), *more}) and len(shown) == 10
    listed = {1: [3]}
    assert memory_selection.shown(listed, every, changed, 4, 500, 1).rows() == [(1, 3), (1, 503)]
    assert memory_selection.shown(None, every, changed, 4, 500, 1).equals(every)


@pytest.mark.parametrize("asked, shown, says", [
    (0, None, "triggers.keys: expected a number"), (True, None, "triggers.keys: expected a number"),
    ("ten", None, "triggers.keys: expected a number"), ({}, None, "triggers.keys: expected a number"),
    ({0: [1]}, None, "triggers.keys: expected a number"), ({3: []}, None, "triggers.keys: expected a number"),
    ({3: [-1]}, None, "-1 is not the number of a memory"), ({3: [1, 1]}, None, "listed twice"),
    (10, 11, "gallery.keys: 11 is more than triggers.keys"),
    ({3: [1]}, {3: [2]}, "memory 2 of layer 3 is not in triggers.keys"),
])  # fmt: skip
def test_configs_that_ask_for_no_memories_are_refused(asked, shown, says):
    with pytest.raises(UserError, match=says):
        configs.parse(with_keys(config(), asked, shown))


def test_the_released_code_looks_at_all_memories():
    released = config(fidelity="released", triggers__keys=3)
    with pytest.raises(UserError, match="needs all memories"):
        configs.parse(released)
