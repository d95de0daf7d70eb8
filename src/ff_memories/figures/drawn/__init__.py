"""One module per figure: what it is (``FIGURE``), its ``data``, its ``chart`` and its ``headline``."""
