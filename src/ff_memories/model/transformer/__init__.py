"""A language model of `transformers` as a stack of key-value memories, behind the same loop as ``decoder.Decoder``.

`transformers`' own layers compute every number: ``hooked`` reads them where the model's row of ``families`` says.
``load`` builds a model from its files, ``describe`` says what it is.
"""
