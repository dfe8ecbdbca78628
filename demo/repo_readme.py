"""Reading a README: its blocks, its headings, and the passages on a subject."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PREFERRED = (".md", ".rst", ".txt", "")
_LONGEST = 1 << 20
_MOST_PASSAGES, _MOST_LINES = 6, 30

_TESTS = re.compile(r"\b(?:unit|integration)?[ -]?tests?\b|\btesting\b|\bpytest\b|\bunittest\b|\btox\b|\bnox\b", re.I)
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_UNDERLINE = re.compile(r"(?:={3,}|-{3,}|~{3,})\s*$")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_PICTURES = re.compile(r"\s*(?:\[?!\[|<img|\.\. image::)")
_INLINE = re.compile(r"`{1,2}([^`\n]+)`{1,2}")
_COMMAND = re.compile(r"\s*(?:\$ |> )?((?:[\w./-]+=\S+ )*[a-z.][\w./-]*(?: .*)?)$")
_TOOLS = re.compile(
    r"(?:make|just|npm|yarn|pnpm|cargo|go|mvn|gradle|ctest|bundle|rake|mix|dotnet|hatch|pdm|poetry|uv|nox|tox|pytest|py"
    r"|python[\d.]*|\./\S+|\.ci/\S+|\S+/(?:python[\d.]*|pytest))\b"
)


@dataclass(frozen=True, slots=True)
class _Block:
    """Neighbouring lines without a blank between; fenced code is one block. ``first`` counts from 1."""

    first: int
    lines: tuple[str, ...]
    level: int = 0  # of a heading
    code: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def passages_on_tests(root: Path) -> str:
    """The README's passages on tests, verbatim with their lines' numbers, and the commands they name."""
    path = _find(root)
    if path is None:
        return "There is no README here."
    blocks = list(_blocks(_read(path)))
    wanted = _chosen(blocks)
    if not wanted:
        return f"{path.name} says nothing about tests."
    told = [f"{path.name}, {_where(passage)}:\n{_quoted(passage)}" for passage in wanted[:_MOST_PASSAGES]]
    if len(wanted) > _MOST_PASSAGES:
        told.append(f"More passages on tests: {len(wanted) - _MOST_PASSAGES}")
    commands = list(dict.fromkeys(command for passage in wanted for command in _commands(passage)))
    if commands:
        told.append("Test commands it names: " + ", ".join(f"`{each}`" for each in commands))
    return "\n\n".join(told)


def outline(root: Path) -> str:
    """The README's headings, indented by their level."""
    path = _find(root)
    if path is None:
        return "There is no README here."
    headings = [block for block in _blocks(_read(path)) if block.level]
    lines = [f"{'  ' * (block.level - 1)}{_title(block)}" for block in headings]
    return "\n".join(lines) or f"{path.name} has no headings."


def _find(root: Path) -> Path | None:
    found = {path.name.lower(): path for path in sorted(root.iterdir()) if path.is_file()}
    names = [f"readme{suffix}" for suffix in _PREFERRED]
    names += [name for name in found if name.startswith("readme.")]
    return next((found[name] for name in names if name in found), None)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LONGEST).decode("utf-8-sig", "replace").replace("\0", "\ufffd")


def _blocks(text: str) -> Iterator[_Block]:
    held: list[str] = []
    first, fence = 1, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        opening = _FENCE.match(line)
        if fence:
            held.append(line)
            if opening and opening[1].startswith(fence):
                yield _Block(first, tuple(held), code=True)
                held, fence = [], ""
            continue
        heading = _HEADING.match(line)
        if held and (opening or heading or not line.strip()):
            yield _paragraph(first, held)
            held = []
        if opening:
            held, first, fence = [line], number, opening[1][:3]
        elif heading:
            yield _Block(number, (line,), len(heading[1]))
        elif line.strip():
            first = first if held else number
            held.append(line)
    if fence:  # never closed: code to the end
        yield _Block(first, tuple("\n".join(held).rstrip().split("\n")), code=True)


def _paragraph(first: int, lines: list[str]) -> _Block:
    if len(lines) == 2 and _UNDERLINE.match(lines[1]):
        return _Block(first, tuple(lines), 1 if lines[1].startswith("=") else 2)
    return _Block(first, tuple(lines), code=all(line.startswith(("    ", "\t")) for line in lines))


def _chosen(blocks: list[_Block]) -> list[list[_Block]]:
    """Sections headed by tests, whole; else the blocks that run tests; else those that mention any."""
    sections = list(_sections(blocks))
    if sections:
        return sections
    told = [at for at, block in enumerate(blocks) if not block.level and not _PICTURES.match(block.text)]
    mentions = [at for at in told if _TESTS.search(blocks[at].text)]
    running = [at for at in mentions if list(_commands([blocks[at]]))]
    return _joined(blocks, running or mentions)


def _sections(blocks: list[_Block]) -> Iterator[list[_Block]]:
    tops = [block for block in blocks if block.level == 1]
    title = tops[0] if len(tops) == 1 else None  # of the whole document: no section of it
    taken = 0
    for at, block in enumerate(blocks):
        if at >= taken and block.level and block is not title and _TESTS.search(_title(block)):
            after = range(at + 1, len(blocks))
            taken = next((end for end in after if 0 < blocks[end].level <= block.level), len(blocks))
            yield blocks[at:taken]


def _joined(blocks: list[_Block], chosen: list[int]) -> list[list[_Block]]:
    """Each block with the code that it announces or the sentence that announces it, neighbours in one."""
    wanted: set[int] = set()
    for at in chosen:
        wanted.add(at)
        if blocks[at].text.rstrip().endswith(":") and at + 1 < len(blocks):
            wanted.add(at + 1)
        if blocks[at].code and at and blocks[at - 1].text.rstrip().endswith(":"):
            wanted.add(at - 1)
    passages: list[list[_Block]] = []
    for at in sorted(wanted):
        if at - 1 in wanted:
            passages[-1].append(blocks[at])
        else:
            passages.append([blocks[at]])
    return passages


def _commands(passage: list[_Block]) -> Iterator[str]:
    """What could be typed to run tests: code that names tests and begins with a known tool."""
    for block in passage:
        lines = [line for line in block.lines if not _FENCE.match(line)] if block.code else _INLINE.findall(block.text)
        for line in lines:
            command = _COMMAND.match(line.split("  #")[0].split(" # ")[0].rstrip())
            if command and _TOOLS.match(command[1]) and _TESTS.search(command[1].replace("_", " ")):
                yield command[1].strip()


def _where(passage: list[_Block]) -> str:
    first, last = passage[0].first, passage[-1].first + len(passage[-1].lines) - 1
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _quoted(passage: list[_Block]) -> str:
    lines: list[str] = []
    for block in passage:
        gap = block.first - (passage[0].first + len(lines))
        lines += [""] * gap + list(block.lines)
    cut = [f"(cut; {len(lines) - _MOST_LINES} more lines)"] if len(lines) > _MOST_LINES else []
    return "\n".join(f"  {line}".rstrip() for line in lines[:_MOST_LINES] + cut)


def _title(block: _Block) -> str:
    heading = _HEADING.match(block.lines[0])
    return heading[2] if heading else block.lines[0].strip()
