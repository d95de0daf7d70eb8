"""The search for every key's triggers: batches, lists of the best, shards, and the table that they give."""
