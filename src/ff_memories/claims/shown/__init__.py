"""Say claims and verdicts to readers: in words, in one line, as a LaTeX table."""
