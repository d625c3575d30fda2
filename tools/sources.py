"""Sources of the tree, for the tools beside it: which files there are, what is code in them, and their functions."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = {".rs": "Rust", ".py": "Python", ".cpp": "C++", ".h": "C++"}


class Function(NamedTuple):
    """A function that has a body, with its first and its last line; attributes and comments before it do not count."""

    name: str
    first: int
    last: int

    @property
    def lines(self) -> int:
        return self.last - self.first + 1


def listed_files(given: list[str]) -> list[str]:
    """Files of the tree below some paths."""
    command = ["git", "ls-files", "--", *given]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def without_tests(text: str) -> str:
    """A Rust file up to its unit tests, which are its last part unless they are a file of their own."""
    return text.split("#[cfg(test)]\nmod tests {")[0]


def functions(text: str, suffix: str) -> list[Function]:
    """The functions of a source, in the order of their first lines. One that is inside another is listed as well."""
    if suffix == ".py":
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
        found = [Function(node.name, node.lineno, node.end_lineno or node.lineno) for node in nodes]
    else:
        find = _rust_functions if suffix == ".rs" else _cpp_functions
        found = list(find(masked(text, suffix)))
    return sorted(found, key=lambda function: function.first)


def code_lines(text: str, suffix: str) -> int:
    """The number of lines that are not blank and not a comment. Docstrings count."""
    if suffix == ".py":
        return sum(1 for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#")
    plain = masked(text, suffix, keeps_directives=True)
    return sum(1 for line in plain.splitlines() if line.strip())


_CPP_LITERALS = r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<raw>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<separator>(?<=[0-9a-fA-F])'(?=[0-9a-fA-F]))
  | (?P<char>'(?:\\.|[^'\\])+')
"""
_RUST_LITERALS = r"""
    (?P<comment>//[^\n]*|/\*)
  | (?P<raw>\b(?:br|cr|r)(?P<mark>\#*)".*?"(?P=mark))
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<char>'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])')
"""
_FLAGS = re.VERBOSE | re.DOTALL | re.MULTILINE
_LITERALS = {"Rust": re.compile(_RUST_LITERALS, _FLAGS), "C++": re.compile(_CPP_LITERALS, _FLAGS)}


def masked(text: str, suffix: str, keeps_directives: bool = False) -> str:
    """A source of Rust or C++ without its comments and with empty strings, its lines where they were.

    A lifetime stays: it is a quote that no second one ends. So do strings' quotes, since a line of a string is code.
    Directives of a preprocessor go too, unless they are asked for: their braces need not match.
    """
    pattern = _LITERALS[LANGUAGES[suffix]]
    parts = []
    at = 0
    while found := pattern.search(text, at):
        end = found.end()
        kind = next(name for name in found.groupdict() if name != "mark" and found[name] is not None)
        if found.group() == "/*":
            end = _end_of_nested(text, found.end())
        parts.append(text[at : found.start()])
        parts.append(_stand_in(text[found.start() : end], kind, keeps_directives))
        at = end
    return "".join([*parts, text[at:]])


def _stand_in(text: str, kind: str, keeps_directives: bool) -> str:
    """The text in place of a comment or a literal, of as many lines."""
    if kind == "separator" or (kind == "directive" and keeps_directives):
        return text
    is_code = kind in ("string", "raw", "char")
    lines = text.split("\n")
    return "\n".join('""' if is_code and line.strip() else "" for line in lines)


def _end_of_nested(text: str, at: int) -> int:
    """The end of a comment that may hold others, which began before `at`."""
    depth = 1
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if found.group() == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)


def _rust_functions(text: str) -> Iterator[Function]:
    for found in re.finditer(r"\bfn\s+(\$?\w+)", text):
        start = _body(text, found.end())
        if start is not None:
            yield _function(found[1], text, found.start(), _closing(text, start))


def _body(text: str, at: int) -> int | None:
    """The brace that opens the body of a signature, or none if it has no body."""
    depth = 0
    for found in re.compile(r"[()\[\]{};]").finditer(text, at):
        letter = found.group()
        if depth == 0 and letter in "{;":
            return found.start() if letter == "{" else None
        if letter != ";":
            depth += 1 if letter in "([{" else -1
        if depth < 0:
            return None
    return None


def _closing(text: str, start: int) -> int:
    """The brace that closes the one at `start`."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.start()
    return len(text) - 1


def _function(name: str, text: str, start: int, end: int) -> Function:
    return Function(name, text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1)


_CPP_SCOPE = re.compile(r"^(?:(?:inline|template|export)\b[^;{}]*?)?\s*\b(?:namespace|class|struct|union|extern)\b")
_CPP_NAME = re.compile(r"(operator\s*(?:\(\s*\)|[^\s(]+)|~?\w+)\s*\($")


def _cpp_functions(text: str) -> Iterator[Function]:
    """Braces that follow a name and its parameters, outside of other functions. Lambdas belong to theirs."""
    at = start = depth = 0
    while found := re.compile(r"[(){};]").search(text, at):
        letter, at = found.group(), found.end()
        depth += (letter == "(") - (letter == ")")
        if depth > 0 or letter in "()":
            continue
        header = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)*", "", text[start : found.start()])
        first = found.start() - len(header)
        if letter == "{" and _is_member_initialiser(header):
            at = _closing(text, found.start()) + 1
            continue
        if letter == "{":
            name = _cpp_name(header)
            if name or not _is_cpp_scope(header):
                end = _closing(text, found.start())
                at = end + 1
                if name:
                    yield _function(name, text, first, end)
                elif text[at:].lstrip()[:1] in (";", ","):
                    continue
        start = at


def _is_cpp_scope(header: str) -> bool:
    return bool(_CPP_SCOPE.search(header)) and "=" not in re.sub(r"<[^{}]*>", "", header)


def _is_member_initialiser(header: str) -> bool:
    """Tells if a brace after this begins the value of a member, in a constructor's list, and not a body."""
    after = re.search(r"\)\s*(?:noexcept\s*)?:(?!:)(.*)$", _without_parentheses(header), re.DOTALL)
    return after is not None and re.search(r"\w\s*$", after[1]) is not None


def _without_parentheses(text: str) -> str:
    """A text with nothing between its outer parentheses."""
    parts = []
    depth = 0
    for letter in text:
        depth -= letter == ")"
        if depth == 0:
            parts.append(letter)
        depth += letter == "("
    return "".join(parts)


def _cpp_name(header: str) -> str | None:
    """The name of the function that a header declares, if it declares one."""
    flat = re.sub(r"^[A-Z0-9_]+\(\)\s*(?=\w)", "", _without_parentheses(header).strip())
    flat = re.sub(r"^template\s*<[^{};]*?>\s*(?=[\w:\[~])", "", flat)
    operator = re.search(r"operator\s*(\(\s*\)|[^\s(\w]+)\s*\(\)", flat)
    if operator:
        return f"operator{operator[1]}"
    before, parenthesis, _ = flat.partition("(")
    found = _CPP_NAME.search(before + parenthesis)
    if not found or "=" in before or found[1] in ("if", "for", "while", "switch", "catch", "alignas", "decltype"):
        return None
    return found[1]
