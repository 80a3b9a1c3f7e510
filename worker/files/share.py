"""How many rows may be bad before a command says that it failed."""

from worker.errors import RunError

MOST_BAD = 0.05  # of all rows


def refuse_many_bad(bad: int, rows: int) -> None:
    """Fail, now that all is done, where more rows were bad than one may overlook."""
    if bad > MOST_BAD * rows:
        raise RunError(
            f"{bad:,} of {rows:,} rows could not be read, more than {MOST_BAD:.0%}; "
            "mend them, or name what they are with --format"
        )
