"""What is counted, and how much of it there may be."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from tools.house.explained import ANY, DUPLICATES
from tools.house.graph import graph, knots

CODE, TESTS = Path("src/symfonic"), Path("tests")
WRITTEN = ("src", "tests", "tools", "benchmarks", "demo")
"""The folders that are written, and not generated or installed."""
_STARTERS = {
    "create_task",
    "ensure_future",
    "gather",
    "run_coroutine_threadsafe",
    "run_in_executor",
    "to_thread",
    "Thread",
}
_STARTS_THEM = ("kernel/concurrency/", "cli/interrupt.py")
_MOCKS = {"Mock", "MagicMock", "AsyncMock", "patch", "create_autospec"}
_WORD = re.compile(r"[a-z]{3,}")
_THIN = re.compile(r"[\W_]*")
SHARED = 6
"""Lines that make a duplicate."""


@dataclass(frozen=True, slots=True)
class Count:
    """Something counted: ``found`` of it, ``most`` allowed, and where it is."""

    what: str
    found: float
    most: float
    where: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether there is no more than there may be."""
        return self.found <= self.most


def counts(root: Path) -> list[Count]:
    """Everything that is counted, of the checkout at ``root``."""
    files = sorted((root / CODE).rglob("*.py"))
    tests = sorted((root / TESTS).rglob("*.py"))
    functions = [length for path in files for length in function_lengths(path.read_text(encoding="utf-8"))]
    circles = knots(graph(root / CODE))
    return [
        Count("modules that import each other in a circle", sum(map(len, circles)), 0, tuple(map(" ".join, circles))),
        Count("lines of a function, 90th percentile", quantiles(functions, n=10)[-1], 30),
        Count("lines of the longest function", max(functions), 60),
        biggest_file(root),
        Count("names at the root", len(root_names(root)), 20),
        _listed("mocks in the tests", root, tests, mocks),
        _listed("tasks and threads that nobody waits for", root, [p for p in files if not _may_start(p)], loose_tasks),
        _unexplained_any(root),
        _unexplained_duplicates(root, files),
        _listed("comments that say what the code says", root, files, restated),
    ]


def biggest_file(root: Path, most: int = 400) -> Count:
    """The lines of the biggest Python file that is written here, and every one that has too many."""
    files = [root / "conftest.py", *(path for folder in WRITTEN for path in sorted((root / folder).rglob("*.py")))]
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    where = tuple(_at(root, (path, found)) for path, found in lines.items() if found > most)
    return Count("lines of the biggest file", max(lines.values()), most, where)


def function_lengths(source: str) -> list[int]:
    """The lines of every function, its docstring and decorators included."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.end_lineno or 0) - node.lineno + 1 for node in ast.walk(ast.parse(source)) if isinstance(node, functions)
    ]


def root_names(root: Path) -> list[str]:
    """What the package offers at its root."""
    tree = ast.parse((root / CODE / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise LookupError("the package has no __all__")


def mocks(source: str) -> Iterator[int]:
    """The lines that use a mock: fakes at the ports are what tests are made of."""
    for node in ast.walk(ast.parse(source)):
        imported = isinstance(node, ast.ImportFrom) and node.module in ("unittest.mock", "mock")
        called = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _MOCKS
        if imported or called:
            yield node.lineno


def loose_tasks(source: str) -> Iterator[int]:
    """The lines that start a task or thread, unless a task group does, which waits for it."""
    tree = ast.parse(source)
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.unparse(item.context_expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            owner, _, function = ast.unparse(node.func).rpartition(".")
            if function in _STARTERS and owner not in groups:
                yield node.lineno


def public_any(root: Path) -> Iterator[str]:
    """The parameters, results and fields of the root's names that are typed as Any, as ``Class.method(parameter)``."""
    names = set(root_names(root))
    for path in sorted((root / CODE).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name in names:
                yield from _any_in_class(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names:
                yield from _any_in_function(node.name, node)


def restated(source: str) -> Iterator[int]:
    """The comments all of whose words are among those of the line that they stand on or above."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.string.startswith(("# noqa", "# type:", "# fmt")):
            continue
        number = token.start[0]
        own_line = not lines[number - 1][: token.start[1]].strip()
        code = lines[number] if own_line and number < len(lines) else lines[number - 1][: token.start[1]]
        words, said = set(_WORD.findall(token.string.lower())), set(_WORD.findall(code.lower()))
        if words and words <= said:
            yield number


def duplicates(root: Path, files: Sequence[Path]) -> Iterator[str]:
    """The pairs of places that share lines to the letter, as ``file:line file:line``; thin lines do not count."""
    seen: dict[tuple[str, ...], tuple[Path, int]] = {}
    covered: set[tuple[Path, int]] = set()
    for path in files:
        told = [
            (number, line.strip())
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if len(_THIN.sub("", line)) > 2 and not line.strip().startswith(("from ", "import ", "#"))
        ]
        for at in range(len(told) - SHARED + 1):
            window = tuple(line for _, line in told[at : at + SHARED])
            first = seen.setdefault(window, (path, told[at][0]))
            here = (path, told[at][0])
            if first != here and (first[0], first[1] - 1) not in covered and (path, told[at - 1][0]) not in covered:
                yield f"{_at(root, first)} {_at(root, here)}"
            if first != here:
                covered |= {first, here}


def _any_in_class(node: ast.ClassDef) -> Iterator[str]:
    for inner in node.body:
        if isinstance(inner, ast.AnnAssign) and _says_any(inner.annotation) and not _private(ast.unparse(inner.target)):
            yield f"{node.name}.{ast.unparse(inner.target)}"
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and (
            inner.name == "__init__" or not _private(inner.name)
        ):
            yield from _any_in_function(f"{node.name}.{inner.name}", inner)


def _any_in_function(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    arguments = node.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if each is not None and each.annotation is not None and _says_any(each.annotation):
            yield f"{name}({each.arg})"
    if node.returns is not None and _says_any(node.returns):
        yield f"{name} -> {ast.unparse(node.returns)}"


def _says_any(annotation: ast.expr) -> bool:
    return re.search(r"\bAny\b", ast.unparse(annotation)) is not None


def _private(name: str) -> bool:
    return name.startswith("_")


def _may_start(path: Path) -> bool:
    return any(part in path.as_posix() for part in _STARTS_THEM)


def _at(root: Path, place: tuple[Path, int]) -> str:
    return f"{place[0].relative_to(root).as_posix()}:{place[1]}"


def _listed(what: str, root: Path, files: Sequence[Path], find: Callable[[str], Iterator[int]]) -> Count:
    where = [_at(root, (path, number)) for path in files for number in find(path.read_text(encoding="utf-8"))]
    return Count(what, len(where), 0, tuple(where))


def _unexplained_any(root: Path) -> Count:
    left = tuple(each for each in public_any(root) if each not in ANY)
    return Count("uses of Any in public signatures that are not explained", len(left), 0, left)


def _unexplained_duplicates(root: Path, files: Sequence[Path]) -> Count:
    pairs = list(duplicates(root, files))
    many = Counter(map(_files, pairs))
    left = tuple(each for each in pairs if many[_files(each)] > DUPLICATES.get(_files(each), (0, ""))[0])
    return Count(f"places that share {SHARED} lines and are not explained", len(left), 0, left)


def _files(pair: str) -> str:
    """A pair of places without the line numbers, which change."""
    return re.sub(r":\d+", "", pair)
