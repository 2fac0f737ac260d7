"""cover: rows of factors' values in which each allowed combination of some factors appears, chosen one by one: the row that brings most that is new, the first
of equals."""
import itertools


def rows_of(factors, fits):
    """[{factor: value}], all that fit."""
    return [row for row in (dict(zip(factors, values)) for values in itertools.product(*factors.values())) if fits(row)]


def combinations(row, strength):
    return set(itertools.combinations(row.items(), strength))


def cover(factors, fits, strength):
    """Rows that fit, with each combination of `strength` values that any such row has."""
    rows = [(row, combinations(row, strength)) for row in rows_of(factors, fits)]
    left, chosen = set().union(*(new for _, new in rows)), []
    while left:
        row, new = max(rows, key=lambda one: len(one[1] & left))
        chosen.append(row)
        left -= new
    return chosen
