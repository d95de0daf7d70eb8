"""Tables and pages for people: Tables 1 and 2 and the report, as HTML that works offline, CSV and LaTeX."""
