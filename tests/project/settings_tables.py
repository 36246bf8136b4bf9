"""Writes the tables of settings in ``trees/README.md`` from the docstrings of the fields.

    python -m tests.project.settings_tables          rewrites the tables between their markers; a test compares

A table stands between ``<!-- settings: NAME -->`` and ``<!-- end -->``. NAME is a class of ``trees``, or ``start``.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trees
from actors.validation.spec_model import SpecModel

PAGE = Path(trees.__file__).with_name("README.md")
_TABLE = re.compile(r"(<!-- settings: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """The page with each table as the code says it."""
    return _TABLE.sub(lambda found: f"{found[1]}{table(found['name'])}{found[3]}", page)


def table(name: str) -> str:
    """The table of one class of settings, or of the arguments of a function."""
    subject = getattr(trees, name)
    rows = _fields(subject) if isinstance(subject, type) else _arguments(subject)
    head = "field" if isinstance(subject, type) else "argument"
    lines = [f"| `{field}` | {default} | {meaning} |" for field, default, meaning in rows]
    return "\n".join([f"| {head} | default | meaning |", "|---|---|---|", *lines, ""])


def _fields(subject: type[SpecModel]) -> Iterator[tuple[str, str, str]]:
    """Name, default and docstring of each field of a class, in order."""
    body = ast.parse(textwrap.dedent(inspect.getsource(subject))).body[0]
    assert isinstance(body, ast.ClassDef)
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        name = statement.target.id
        if name not in subject.model_fields:
            continue
        assert isinstance(following, ast.Expr), f"{subject.__name__}.{name} has no docstring"
        assert isinstance(following.value, ast.Constant), f"{subject.__name__}.{name} has no docstring"
        field = subject.model_fields[name]
        default = "" if field.is_required() else f"`{_shown(field.get_default(call_default_factory=True))}`"
        yield name, default, _flat(str(following.value.value))


def _arguments(subject: Any) -> Iterator[tuple[str, str, str]]:
    """Name, default and line of ``Args:`` of each argument that has a default."""
    _, _, args = inspect.getdoc(subject).partition("Args:\n")
    args, _, _ = args.partition("\n\n")
    said = {found[1]: _flat(found[2]) for found in re.finditer(r"^    (\w+): (.*(?:\n {8}.*)*)", args, re.MULTILINE)}
    for name, parameter in inspect.signature(subject).parameters.items():
        if parameter.default is not parameter.empty:
            yield name, f"`{_shown(parameter.default)}`", said[name]


def _shown(value: object) -> str:
    """A default as a user writes it."""
    match value:
        case tuple() if value:
            shown = f"[{', '.join(map(_shown, value))}]"
        case frozenset():
            shown = str(set(value) or {})
        case type():
            shown = value.__name__
        case str():
            shown = f'"{value}"'
        case SpecModel() if value != type(value)():
            shown = repr(value)
        case tuple() | list() | dict() | int() | float() | None:
            shown = repr(value)
        case _:
            shown = f"{type(value).__name__}()"
    return shown


def _flat(docstring: str) -> str:
    """A docstring as one cell of a table."""
    return " ".join(docstring.replace("``", "`").replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
