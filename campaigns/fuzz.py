"""Ten minutes of fuzzing, guided by coverage, for every reader of a file that somebody else made."""

import tempfile
from pathlib import Path

import fuzzing

from campaigns.trials import Clock, options, record


def main() -> None:
    parser = options()
    parser.add_argument("--readers", nargs="+", choices=fuzzing.READERS, default=list(fuzzing.READERS))
    parser.add_argument("--seconds", type=int, default=600, help="for each reader")
    given = parser.parse_args()
    clock, rows = Clock(given.minutes), []
    for reader in given.readers:
        if clock.left():
            out = Path(tempfile.mkdtemp(prefix=f"fuzz-{reader}-"))
            tried, found, _ = fuzzing.guided(reader, given.seconds, out, given.seed)
            rows.append({"reader": reader, "seed": given.seed, "seconds": given.seconds, "tried": tried,
                         "found": len(found)})  # fmt: skip
            print(rows[-1], *found, flush=True)
            record("fuzz", rows, "reader", "seed")


if __name__ == "__main__":
    main()
