"""The files of models: what is in them is checked before a library reads them."""
