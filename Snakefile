# What `snakemake` runs at the top of a clone: workflow/Snakefile has all of it.
include: "workflow/Snakefile"


workflow.default_target = "all"  # an included file cannot set it
