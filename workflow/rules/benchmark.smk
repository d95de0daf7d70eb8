# How fast the engine is on this machine; nothing that `all` needs is made here.


rule benchmark:
    """The engine against the forward pass, other methods and fairseq, side by side: times differ from run to run."""
    output:
        benchmark=run_.table("benchmark"),
        figure=run_.path("figures", "benchmark.svg"),
        page=run_.path("report", "benchmark.md"),
    log:
        run_.path("logs", "benchmark.log"),
    conda:
        "../envs/environment.yaml"
    threads: 64  # or as many as there are
    resources:
        gpu=1,
        device=run_.config.execution.device,
    params:
        project=workflow.basedir,
    shell:
        "PYTHONPATH={params.project:q}${{PYTHONPATH:+:$PYTHONPATH}} python -m benchmarks "
        "--device {resources.device} --threads {threads} --benchmark {output.benchmark} "
        "--figure {output.figure} --page {output.page} 2> {log}"
