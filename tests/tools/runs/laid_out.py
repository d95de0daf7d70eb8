"""A run made by its steps alone, with its files where the workflow puts them."""

import shutil

from pipeline import step

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


def label(config, results, dictionary):
    """Label a laid out run's triggers with the automatic proxy, and merge them with no annotations of people."""

    def at(folder, *names):
        return [w for option, name in names for w in (f"--{option}", results / folder / f"{name}.parquet")]

    sampled = (("triggers", "triggers"), ("examples", "examples"), ("refinement", "refinement"))
    given = ["--config", config, "--corpus", results / "corpus" / "corpus.safetensors", "--dictionary", dictionary,
             *at("tables", *sampled)]  # fmt: skip
    labels = (("annotations", "annotations"), ("labels", "pattern_labels"), ("distances", "distance_labels"),
              ("scores", "annotation_scores"))  # fmt: skip
    step("proxy", *given, "--weights", results / "model" / "model.safetensors", "--description",
         results / "model" / "model.json", *at("proxy", *labels), *at("counts", ("counts", "proxy")))  # fmt: skip
    made = [results / "proxy" / f"{name}.parquet" for _, name in labels]
    step("patterns", *given, "--proxy", *made, *at("tables", ("plan", "annotation_plan"), *labels), "--stale",
         results / "counts" / "stale_annotations.csv", *at("counts", ("counts", "patterns")))  # fmt: skip
