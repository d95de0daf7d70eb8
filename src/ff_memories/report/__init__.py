"""Tables 1 to 3 as HTML, CSV and LaTeX, and the report and gallery as HTML pages that work offline."""
