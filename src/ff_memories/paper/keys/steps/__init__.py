"""The section's steps of the workflow, as ff_memories.declaration describes them."""
