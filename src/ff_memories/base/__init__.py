"""What every other part may use: errors, atomic files, escaping, progress, seeds, GPU locks."""
