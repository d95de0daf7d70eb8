"""Tables and pages for people: Tables 1 to 3 and the report, as HTML that works offline, CSV and LaTeX."""
