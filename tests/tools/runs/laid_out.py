"""A run made by its steps alone, with its files where the workflow puts them."""

import shutil

MODEL = ("model.safetensors", "model.json", "info.json", "types.json")


def lay_out(folder, out, name):
    """Move the files of ``run_steps`` to where a run has them: results/NAME/."""
    results = folder / "results" / name
    for path in out.glob("*"):
        if path.is_dir():
            continue
        part = "model" if path.name in MODEL else "tables" if path.suffix == ".parquet" else "corpus"
        (results / part).mkdir(parents=True, exist_ok=True)
        shutil.move(path, results / part / path.name)
    return results
