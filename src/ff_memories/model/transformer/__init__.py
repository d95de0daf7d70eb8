"""A language model of `transformers` as a stack of key-value memories, behind the same loop as ``decoder.Decoder``.

`transformers`' own layers compute every number: ``layer`` reads them by hooks where the model's row of ``families``
says, and ``stack`` is the loop around them. ``load`` builds a model from its files, ``describe`` says what it is.
"""
