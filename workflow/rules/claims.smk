# The paper's claims, compared with this run's measurements.


rule claims:
    """Judge every claim of the paper, with the value measured here and a verdict."""
    input:
        tables=run_.tables(*CLAIM_TABLES),
        counts=[run_.path("counts", f"{name}.parquet") for name in COUNTED],
        baselines=rules.baselines.output.baselines,
        info=rules.model.output.info,
        dictionary=run_.dictionary,
    output:
        claims=run_.table("claims"),
        out_counts=run_.table("counts"),
        metrics=run_.path("claims.json"),
        each=directory(run_.path("claims")),
    params:
        **step_params("claims", "seed mutations composition values extraction"),
    shell:
        command("claims")
