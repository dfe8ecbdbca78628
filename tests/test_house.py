"""The counts that keep the house plain, the picture of it, and that both can be wrong."""

from pathlib import Path

import pytest
from tools.house.counts import (
    CODE,
    WRITTEN,
    Count,
    biggest_file,
    counts,
    duplicates,
    loose_tasks,
    mocks,
    public_any,
    restated,
)
from tools.house.drawing import drawing, needed, rows
from tools.house.explained import ANY, DUPLICATES
from tools.house.graph import graph, knots

ROOT = Path(__file__).resolve().parent.parent
COUNTS = counts(ROOT)


@pytest.mark.parametrize("count", COUNTS, ids=[count.what for count in COUNTS])
def test_there_is_no_more_of_anything_than_there_may_be(count: Count) -> None:
    assert count.fits, count.where


def test_the_picture_in_the_docs_is_that_of_the_code() -> None:
    drawn = (ROOT / "docs" / "images" / "house.svg").read_text(encoding="utf-8")
    assert drawn == drawing(ROOT), "make house"


def test_everything_that_is_explained_is_there() -> None:
    assert set(public_any(ROOT)) == set(ANY)
    files = sorted((ROOT / CODE).rglob("*.py"))
    found = " ".join(duplicates(ROOT, files))
    for pair in DUPLICATES:
        assert all(file in found for file in pair.split()), pair


def test_a_file_with_too_many_lines_is_found_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("x = 1\n" * 3)
    for lines, name in enumerate(WRITTEN, 3):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file.py").write_text("x = 1\n" * lines)
    assert biggest_file(tmp_path, 7).fits
    found = biggest_file(tmp_path, 2)
    assert (found.found, found.fits) == (7, False)
    assert found.where == ("conftest.py:3", *(f"{name}/deep/file.py:{lines}" for lines, name in enumerate(WRITTEN, 3)))


def package(folder: Path, **modules: str) -> Path:
    (folder / "house").mkdir()
    for name, text in {"__init__": "", **modules}.items():
        (folder / "house" / f"{name}.py").write_text(text)
    return folder / "house"


def test_modules_in_a_circle_are_found_also_where_they_import_inside_functions_and_for_types(tmp_path: Path) -> None:
    house = package(
        tmp_path,
        a="from house import b",
        b="def f():\n    from house.c import x",
        c="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.a\nx = 1",
        d="from house import a",
    )
    assert graph(house)["house.b"] == {"house.c"}
    assert knots(graph(house)) == [("house.a", "house.b", "house.c")]


def test_rooms_stand_above_what_they_import_and_circles_have_no_floor() -> None:
    ways = {("door", "root"): 2, ("root", "left"): 1, ("left", "floor"): 1, ("door", "floor"): 5}
    assert rows(ways, {"door", "root", "left", "floor"}) == [["door"], ["root"], ["left"], ["floor"]]
    assert needed(ways) == set(ways) - {("door", "floor")}
    with pytest.raises(ValueError, match="in a circle"):
        rows({("a", "b"): 1, ("b", "a"): 1}, {"a", "b"})


def test_mocks_and_loose_tasks_are_found_and_a_task_groups_are_not() -> None:
    assert list(mocks("from unittest.mock import Mock\nx = Mock()\ny = mock.patch('z')")) == [1, 2, 3]
    loose = (
        "async def f():\n    asyncio.create_task(g())\n    async with TaskGroup() as group:\n"
        "        group.create_task(g())"
    )
    assert list(loose_tasks(loose)) == [2]


def test_a_comment_that_says_what_the_code_says_is_found_and_one_that_says_why_is_not() -> None:
    assert list(restated("# open the file\nfile = open(the_file)\n")) == [1]
    assert list(restated("count += 1  # count\n")) == [1]
    assert list(restated("# readers may be slow\nfile = open(path)\n")) == []


def test_places_that_share_lines_are_found_whatever_is_thin_between_them(tmp_path: Path) -> None:
    lines = [f"value_{number} = make({number})" for number in range(6)]
    house = package(tmp_path, one="\n".join(lines), two="x_first = 1\n" + "\n\n".join(lines))
    found = list(duplicates(tmp_path, sorted(house.glob("*.py"))))
    assert found == ["house/one.py:1 house/two.py:2"]
