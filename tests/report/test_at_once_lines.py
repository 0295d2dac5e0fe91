"""The line that says that more than one thing changed, in all places that show an effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from expdb.query.compare_results import CodeDiff, ConfigDiff, FileDiff, NamedDiff
from expdb.query.results import ABSENT
from expdb.query.things import things_between
from expdb.report import at_once, closing, shown, verdict
from expdb.text import cells
from tests.report.test_closing_lines import make as compare_exp01
from tests.report.test_history_lines import TREE, make_history

FILES = tuple(
    FileDiff(status="M", path=path, num_added=1, num_removed=1)
    for path in ("conf/exp/exp01.yaml", "train.py")
)


def differs(*keys: str) -> tuple[ConfigDiff, ...]:
    return tuple(ConfigDiff(key=key, values=(1, 2), differs=True) for key in keys)


def env(name: str, *values: str | None) -> NamedDiff:
    return NamedDiff(name=name, values=values)


@pytest.mark.parametrize(
    ("more", "things"),
    [
        ({"config": differs("optim.lr")}, ("optim.lr",)),
        ({"config": differs("schedule.kind", "schedule.ratio")}, ("schedule (2 keys)",)),
        ({"config": differs("optim.lr", "model.width")}, ("optim.lr", "model.width")),
        ({"environment": (env("torch", "1", "2"), env("gpu", "a", "b"))}, ("environment",)),
        ({"environment": (env("cpu", "a", "b"), env("packages", None, "b"))}, ()),
        ({"data": (env("val", "a", "b"),), "config": differs("a")}, ("a", "data")),
    ],
)
def test_config_groups_environment_and_data_are_things(cast, more, things):
    assert things_between(replace(compare_exp01(cast), **more)) == things


def test_a_config_file_is_told_by_its_keys_and_an_unused_file_is_nothing(cast):
    made = compare_exp01(cast)
    runs = tuple(
        replace(run, attempts=(replace(run.attempt, pin=replace(run.pin, used={})),))
        for run in made.runs
    )
    made = replace(made, runs=runs, code=CodeDiff(same_tree=False, files=FILES))
    assert things_between(made) == ("train.py",)
    used = tuple(
        replace(run, attempts=(replace(run.attempt, pin=replace(run.pin, used=files)),))
        for run, files in zip(runs, ({"a.py": "1", "b.py": "1"}, {"a.py": "2", "c.py": "1"}),
                              strict=True)
    )  # fmt: skip
    assert things_between(replace(made, runs=used)) == ("a.py",)
    assert things_between(replace(made, code=CodeDiff(same_tree=None))) == ()


LINE = "2 things changed at once (optim.lr, model.width): what moved val/loss cannot be told"


def test_compare_show_and_the_closing_table_say_it(cast, screen):
    one = replace(
        compare_exp01(cast), verdicts=(replace(compare_exp01(cast).verdicts[0], delta=1),)
    )
    two = replace(one, config=differs("optim.lr", "model.width"))
    for lines in (verdict.verdict_lines, closing.closing_lines, shown._outcome):
        assert lines(two, screen())[-1] == LINE
        assert "at once" not in "\n".join(lines(replace(two, config=differs("a")), screen()))
    why = ("why", "expdb log --why val/loss t1h6")
    assert at_once.next_commands(two, screen()) == [why]
    assert why in closing.next_commands(two, screen())
    assert at_once.next_commands(one, screen()) == []


def test_the_line_fits_with_as_many_names_as_there_is_room_for(screen):
    things = ["optim.lr", "model.width", "train.py", "x" * 90, "\x1b[31m"]
    for width in (120, 100, 80, 70):
        said = at_once.at_once_line(things, "val/loss", screen(), room=width)
        assert cells(said) <= width
        assert said.startswith("5 things changed at once")
    wide = at_once.at_once_line(things[:3], "val/loss", screen(), room=100)
    assert wide == (
        "3 things changed at once (optim.lr, model.width, train.py): what moved val/loss cannot"
        " be told"
    )
    assert at_once.at_once_line(["\x1b[31m", "\n"], "m", screen(), room=100).isprintable()
    assert at_once.at_once_line(["one"], "m", screen(), room=100) == ""


def test_a_graph_names_the_runs_that_changed_several_things(cast, screen):
    made = make_history(cast)
    (said,) = at_once.of_history(made, screen())
    assert said == (
        "g2z8: 2 things changed at once (loop.z_loss, code): what moved val/loss cannot be told"
    )
    assert at_once.next_of_history(made, screen()) == [("why", "expdb log --why val/loss")]
    entries = list(TREE)
    entries[3] = (*entries[3][:4], {**entries[3][4], "environment": ("torch",)})
    (said,) = at_once.of_history(make_history(cast, tuple(entries)), screen())
    assert said == (
        "2 runs changed several things at once (h4q8, g2z8): what moved val/loss cannot be told"
    )
    assert at_once.of_history(make_history(cast, TREE[:5]), screen()) == []
    assert ABSENT is made.nodes[4].config[1].before  # a group that is exchanged is one thing
