"""Memory that runs out: batches are halved, it's said, and what is measured is the same."""

import re

import numpy as np
import pytest
import torch
from factories import words
from pipeline import config, run_steps, write_inputs

from ff_memories import tables
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Batch, DecoderLayer
from ff_memories.model.interventions import Branches
from ff_memories.model.vocabulary import Vocabulary

pytestmark = pytest.mark.more

ERRORS = [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("can't allocate memory"), MemoryError(),
          RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
          torch.AcceleratorError("CUDA error: out of memory")]  # fmt: skip
WHOLE, READ = DecoderLayer.attend, Vocabulary._rows
TABLES = ("triggers", "mutations", "values", "composition", "refinement")


@pytest.mark.parametrize("error", ERRORS)
def test_batches_are_halved_until_they_fit(error, capsys):
    seen = []

    def run(part):
        if len(part) > 3:
            raise error
        seen.append(list(part))

    batching.retry_smaller(run, list(range(13)))
    assert [i for part in seen for i in part] == list(range(13)) and max(map(len, seen)) == 3
    assert "a batch of 13 sentences goes on in halves" in capsys.readouterr().err


def test_other_errors_pass():
    def other(part):
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        batching.retry_smaller(other, [1, 2])


def test_an_allocation_that_the_machine_refuses_is_recognised():
    with pytest.raises(RuntimeError) as refused:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert batching.out_of_memory(refused.value)


def test_a_device_of_little_memory_gives_the_same_tables(tmp_path, monkeypatch, capsys):
    made = {}
    for name in ("plenty", "little"):
        (tmp_path / name).mkdir()
        write_inputs(tmp_path / name, words(44))
        if name == "little":

            def attend(self, x, batch):
                out = WHOLE(self, x, batch)
                halves = isinstance(batch, Batch) or (not isinstance(batch, Branches) and len(batch.groups[0][0]) > 1)
                if len(x) > 60 and halves:
                    raise torch.OutOfMemoryError("CUDA out of memory.")
                return out

            def rows(self, h, target, rank):
                if len(h) > 8:
                    raise torch.OutOfMemoryError("CUDA out of memory.")
                return READ(self, h, target, rank)

            monkeypatch.setattr(DecoderLayer, "attend", attend)
            monkeypatch.setattr(Vocabulary, "_rows", rows)
        out = run_steps(tmp_path / name, config())
        made[name] = {t: tables.read(out / f"{t}.parquet") for t in TABLES}
    said = capsys.readouterr().err
    for unit in ("sentences", "texts", "vectors"):
        assert re.search(rf"a batch of \d+ {unit} goes on in halves", said), unit
    for name, frame in made["plenty"].items():
        other = made["little"][name]
        for column in frame.columns:
            if frame[column].dtype.is_float():
                assert np.allclose(frame[column], other[column], rtol=1e-4), (name, column)
            else:
                assert frame[column].equals(other[column]), (name, column)
