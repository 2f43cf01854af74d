"""Tables as a terminal shows them: whatever its width, no word of them is cut."""

from io import StringIO

from rich.console import Console
from rich.table import Table

from suite.record.tables import plain_console, show_table

NAMES = ["ResNet.layer4.0.downsample.1", "reinforcement_learning/small"]
ADDRESS = "https://example.org/" + "a" * 60


def shown(width: int) -> list[str]:
    table = Table("name", "what it is", "samples/s", "interval")
    for name in NAMES:
        table.add_row(name, "a licence of several words that wraps", "2,061.5", "[1,999.25, 2,100.75] ms")
    table.add_row("short", ADDRESS, "1", "")
    to = Console(file=StringIO(), width=width)
    show_table(to, table)
    return to.file.getvalue().splitlines()


def test_a_table_fits_where_its_words_do():
    for width in (200, 100, 80):
        lines = shown(width)
        assert max(map(len, lines)) <= width
        for word in (*NAMES, "2,061.5", "1,999.25", "licence"):
            assert any(word in line for line in lines), word
        assert not any("…" in line for line in lines)


def test_a_table_is_wider_than_a_terminal_that_has_no_room_for_its_words():
    lines = shown(40)
    assert max(map(len, lines)) > 40
    assert any(NAMES[0] in line and "2,061.5" in line for line in lines)


def test_a_word_that_is_longer_than_a_column_may_be_is_broken_and_kept_whole():
    column = [line.split("│")[2].strip() for line in shown(80) if line.count("│") == 5]
    assert ADDRESS in "".join(column)


def test_a_name_is_shown_as_it_is(capsys):
    plain_console(80).print("code.py:100: in [red]runs:smile:")
    assert capsys.readouterr().out == "code.py:100: in [red]runs:smile:\n"
