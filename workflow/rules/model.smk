# Section 2: the language model as keys and values.


if run_.config.model.has_tokenizer:

    rule model:
        """Check a model of transformers, and prove where its memories are."""
        input:
            files=run_.inputs.model_files,
        output:
            weights=run_.path("model", "model.safetensors"),
            description=run_.path("model", "model.json"),
            info=run_.path("model", "info.json"),
            types=run_.dictionary,
        resources:
            mem_mb=memory,
        params:
            **step_params("transformer_model", "model triggers.signs"),
        shell:
            command("transformer-model")

else:

    rule model:
        """Convert the fairseq checkpoint to keys and values, safely."""
        input:
            checkpoint=run_.inputs.model_file("checkpoint"),
            dictionary=run_.dictionary,
        output:
            weights=run_.path("model", "model.safetensors"),
            description=run_.path("model", "model.json"),
            info=run_.path("model", "info.json"),
        resources:
            mem_mb=memory,
        params:
            **step_params("model", "model corpus sources"),
        shell:
            command("model")
