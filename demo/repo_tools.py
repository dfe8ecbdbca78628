"""What the demo's agents can find out about a git repository: real files, real history, nothing made up.

The repository is the one around the current directory, or the one at ``SYMFONIC_DEMO_REPO``. Every tool returns
plain text for a reader and raises RepositoryError where there is no repository to look at.
"""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from repo_readme import outline, passages_on_tests

_LANGUAGES = {
    ".bash": "Shell", ".c": "C", ".cc": "C++", ".cfg": "INI", ".cpp": "C++", ".cs": "C#", ".css": "CSS", ".go": "Go",
    ".h": "C", ".hpp": "C++", ".htm": "HTML", ".html": "HTML", ".ini": "INI", ".java": "Java", ".js": "JavaScript",
    ".json": "JSON", ".jsx": "JavaScript", ".kt": "Kotlin", ".lua": "Lua", ".md": "Markdown", ".mjs": "JavaScript",
    ".mk": "Make", ".php": "PHP", ".pl": "Perl", ".py": "Python", ".pyi": "Python", ".r": "R", ".rb": "Ruby",
    ".rs": "Rust", ".rst": "reStructuredText", ".scala": "Scala", ".sh": "Shell", ".sql": "SQL", ".swift": "Swift",
    ".toml": "TOML", ".ts": "TypeScript", ".tsx": "TypeScript", ".txt": "Text", ".xml": "XML", ".yaml": "YAML",
    ".yml": "YAML", ".zig": "Zig",
}  # fmt: skip
_NAMES = {"makefile": "Make", "gnumakefile": "Make", "dockerfile": "Dockerfile", "license": "Text", "readme": "Text"}
_INTERPRETERS = {
    "python": "Python",
    "sh": "Shell",
    "bash": "Shell",
    "node": "JavaScript",
    "perl": "Perl",
    "ruby": "Ruby",
}
_CHUNK = 1 << 20
_SNIFFED = 8000  # bytes in which git itself looks for a NUL to tell binary files


class RepositoryError(Exception):
    """Git found no repository, or cannot be run; the message is for a reader."""


def lines_by_language() -> str:
    """Count how large the code base is: files and lines of code by programming language, with a total.

    Measures the size of the project for every language (Python, Markdown, Shell and so on), in all text files
    that git tracks, as they are in the working tree. Binary files are left out and counted apart.
    """
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for path in _tracked_files():
        try:
            measured = _measure(path)
        except OSError:
            left_out["Unreadable"] += 1
            continue
        if measured is None:
            left_out["Binary"] += 1
        else:
            language, count = measured
            files[language] += 1
            lines[language] += count
    note = "".join(f"\n{why} files, not counted above: {count}" for why, count in sorted(left_out.items()))
    if not files:
        return f"No text files are tracked here.{note}"
    rows = [(each, files[each], lines[each]) for each in sorted(files, key=lambda each: (-lines[each], each))]
    return _table([*rows, ("Total", sum(files.values()), sum(lines.values()))]) + note


def layout() -> str:
    """Describe how the repository is laid out: its top-level directories, with the tracked files in each."""
    root = _root()
    counts: Counter[str] = Counter()
    for path in _tracked_files():
        parts = path.relative_to(root).parts
        counts[f"{_printable(parts[0])}/" if len(parts) > 1 else "(top level)"] += 1
    if not counts:
        return "No files are tracked here."
    return "\n".join(f"{name}  {count}" for name, count in sorted(counts.items()))


def last_change() -> str:
    """Tell what changed last: the latest, most recent commit, its date, author and subject, and how much it changed."""
    if not _has_commits():
        return "Nothing was committed yet."
    shape = "--format=%h%x00%ad%x00%an%x00%s"
    commit, date, author, subject = _git("log", "-1", "--date=iso-strict", shape).rstrip("\n").split("\0")
    changed = _git("log", "-1", "-m", "--first-parent", "-M", "--shortstat", "--format=")
    files, insertions, deletions = (
        int(match[1]) if (match := re.search(rf"(\d+) {unit}", changed)) else 0
        for unit in ("files? changed", "insertions?", "deletions?")
    )
    return (
        f"Last commit {commit}, {date}, by {author}: {subject}\n"
        f"files changed: {files}, insertions: {insertions}, deletions: {deletions}"
    )


def recent_changes(limit: int = 5) -> str:
    """List the recent history: the last few commits, newest first, one line each.

    Args:
        limit: How many commits to list.
    """
    if not _has_commits():
        return "Nothing was committed yet."
    return _git("log", f"-{max(1, limit)}", "--date=short", "--format=%h %ad %s").rstrip("\n")


def readme_on_tests() -> str:
    """Quote what the README says about running the tests: the passages on testing, and the test commands to run."""
    return passages_on_tests(_root())


def readme_outline() -> str:
    """List the headings of the README: its outline, the topics and chapters of the documentation."""
    return outline(_root())


def _tracked_files() -> Iterator[Path]:
    """The regular files that git tracks and the working tree holds; links and submodules are not followed."""
    root = _root()
    listed = _git("ls-files", "-z", "--full-name", cwd=root)
    for name in sorted(set(filter(None, listed.split("\0")))):
        path = root / name
        if path.is_file() and not path.is_symlink():
            yield path


def _measure(path: Path) -> tuple[str, int] | None:
    """The language of a text file and its lines; a last line needs no line end. None for a binary file."""
    count, last = 0, b"\n"
    with path.open("rb") as file:
        head = file.read(_SNIFFED)
        if b"\0" in head:
            return None
        chunk = head
        while chunk:
            count += chunk.count(b"\n")
            last = chunk[-1:]
            chunk = file.read(_CHUNK)
    return _language(path, head), count + (last != b"\n")


def _language(path: Path, head: bytes) -> str:
    named = _LANGUAGES.get(path.suffix.lower()) or _NAMES.get(path.name.lower())
    if named:
        return named
    return _INTERPRETERS.get(_interpreter(head), "Other")


def _interpreter(head: bytes) -> str:
    """The program that a script's first line names, without its version; "" where it names none."""
    words = head.split(b"\n", 1)[0].decode("utf-8", "replace").split() if head.startswith(b"#!") else []
    programs = [word.removeprefix("#!").rpartition("/")[2] for word in words]
    return next((each.rstrip("0123456789.") for each in programs if each not in ("", "env", "-S")), "")


def _table(rows: list[tuple[str, int, int]]) -> str:
    shown = [("language", "files", "lines"), *((name, f"{files}", f"{lines}") for name, files, lines in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(3)]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in shown)


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode() if name.isprintable() else ascii(name)[1:-1]


def _root() -> Path:
    return Path(_git("rev-parse", "--show-toplevel").removesuffix("\n"))


def _has_commits() -> bool:
    _root()
    try:
        _git("rev-parse", "--verify", "--quiet", "HEAD")
    except RepositoryError:
        return False
    return True


def _git(*arguments: str, cwd: Path | None = None) -> str:
    """Git's output in its plain form, whatever the user's settings; file names keep their bytes."""
    where = cwd or Path(os.environ.get("SYMFONIC_DEMO_REPO") or ".")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "--no-pager", "-c", "log.showSignature=false", "-c", "color.ui=false", *arguments]
    try:
        done = subprocess.run(  # noqa: S603  (no shell, and no argument is a model's)
            command, cwd=where, env={**environment, "LC_ALL": "C"}, capture_output=True, check=True
        )
    except subprocess.CalledProcessError as error:
        told = error.stderr.decode("utf-8", "replace").strip() or f"exit status {error.returncode}"
        raise RepositoryError(f"git {arguments[0]} in {where}: {told}") from error
    except OSError as error:
        raise RepositoryError(f"git cannot be run in {where}: {error.strerror or error}") from error
    return os.fsdecode(done.stdout)
