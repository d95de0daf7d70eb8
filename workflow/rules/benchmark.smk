# The engine's speed on this machine. `all` does not need it.


rule benchmark:
    """Compare the engine's speed with the forward pass, other methods and fairseq; times differ from run to run."""
    output:
        benchmark=run_.table("benchmark"),
        figure=run_.path("figures", "benchmark.svg"),
        page=run_.path("report", "benchmark.md"),
    threads: 64  # or as many as the machine has
    resources:
        gpu=1,
        device=run_.config.execution.device,
    params:
        project=workflow.basedir,
    shell:
        "PYTHONPATH={params.project:q}${{PYTHONPATH:+:$PYTHONPATH}} python -m benchmarks "
        "--device {resources.device} --threads {threads} --benchmark {output.benchmark} "
        "--figure {output.figure} --page {output.page} 2> {log}"
