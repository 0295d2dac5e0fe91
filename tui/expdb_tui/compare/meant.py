"""Which runs a comparison is of: what is marked, else the cursor's run and the baseline."""

from __future__ import annotations


def meant(base: str | None, marked: tuple[str, ...], here: str | None) -> tuple[str, ...]:
    """Return the runs to compare: the first is measured against."""
    if len(marked) >= 2 or (marked and base is None):
        others = marked
    elif marked:
        others = (base or "", *marked)
    else:
        others = tuple(run for run in (base, here) if run is not None)
    found = tuple(dict.fromkeys(others))
    if base in found:
        return (base, *(run for run in found if run != base))
    return found


def why_none(base: str | None, marked: tuple[str, ...], here: str | None) -> str:
    """Return why there is nothing to compare, and the keys that change it."""
    if base is None:
        return (
            "Nothing to compare with yet.\n"
            "b    |on a run makes it the baseline that others are measured against\n"
            "space|marks runs; d compares them"
        )
    if here is None or here == base:
        return (
            "This is the baseline itself.\n"
            "d    |on another run compares it with the baseline\n"
            "space|marks runs; d compares them"
        )
    return "Nothing to compare.\nspace|marks runs; d compares them"


def free_places(places: tuple[int, ...], *, has_base: bool) -> tuple[int, ...]:
    """Return the places with one for each run that has none; without a baseline 0 is nobody's."""
    taken = set(places) - {0}
    out: list[int] = []
    for at, place in enumerate(places):
        if place or (at == 0 and has_base):
            out.append(place)
            continue
        new = next((number for number in range(1, 7) if number not in taken), 6)
        taken.add(new)
        out.append(new)
    return tuple(out)
