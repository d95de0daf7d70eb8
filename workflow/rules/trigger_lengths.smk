# A toy: what a table from triggers takes.


rule trigger_lengths:
    """Measure the mean length of every key's triggers."""
    input:
        triggers=of_model("tables/triggers.parquet"),
    output:
        trigger_lengths=of_model("tables/trigger_lengths.parquet"),
    params:
        **run_.step("trigger_lengths"),
    shell:
        command("trigger-lengths")
