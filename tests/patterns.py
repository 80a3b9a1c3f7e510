"""Every pattern in the code, what it is used for, and inputs made to be slow for it."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from time import process_time
from typing import Any

ROOT = Path(__file__).parents[1]
FROM_ONE_PLACE = {"match", "fullmatch"}
FROM_EVERYWHERE = {"search", "sub", "subn", "split", "findall", "finditer"}
WITH_PATTERN = FROM_ONE_PLACE | FROM_EVERYWHERE | {"compile"}
SAMPLES = {
    kinds.CATEGORY_DIGIT: "1", kinds.CATEGORY_NOT_DIGIT: "a", kinds.CATEGORY_WORD: "a",
    kinds.CATEGORY_NOT_WORD: "-", kinds.CATEGORY_SPACE: " ", kinds.CATEGORY_NOT_SPACE: "a",
}  # fmt: skip
STEPS = (18, 250, 2500)  # characters; few at first, as some patterns take for ever
SLOW = 200e-9  # CPU seconds for each character that make a pattern suspect


@dataclass(frozen=True)
class Used:
    """A pattern of the code, where it stands, and whether it is only tried from one place on."""

    pattern: re.Pattern[Any]
    place: str
    once: bool

    def spent(self, text: str) -> float:
        """CPU seconds that it takes on a text, as it is used."""
        subject: Any = text.encode("utf-8") if isinstance(self.pattern.pattern, bytes) else text
        started = process_time()
        if self.once:
            self.pattern.match(subject), self.pattern.fullmatch(subject)
        else:
            for _ in self.pattern.finditer(subject):
                pass
        return process_time() - started


def modules(*packages: str) -> Iterator[tuple[str, str, ast.Module]]:
    """The modules of packages: name, source and tree."""
    for file in sorted(path for name in packages for path in (ROOT / name).rglob("*.py")):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        source = file.read_text("utf-8")
        yield name, source, ast.parse(source)


def patterns(*packages: str) -> Iterator[Used]:
    """All patterns that these packages hand to `re`, however they are written."""
    trees = {name: tree for name, _, tree in modules(*packages)}
    methods_of = methods_by_name(trees.values())
    for module, tree in trees.items():
        named = {id(n.value): n.targets[0] for n in ast.walk(tree) if isinstance(n, ast.Assign)}
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re.")):
                continue
            function = ast.unparse(call.func).removeprefix("re.")
            if function in WITH_PATTERN:
                target = named.get(id(call))
                methods = {function} if target is None else methods_of[ast.unparse(target)]
                once = methods <= FROM_ONE_PLACE  # YAML, which is handed some, matches too
                yield Used(compiled(module, function, call), f"{module}:{call.lineno}", once)


def methods_by_name(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """For each name, the attributes that are read of it anywhere: the methods of a pattern."""
    methods: dict[str, set[str]] = defaultdict(set)
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute):
            owner = node.value
            if isinstance(owner, ast.Name):
                methods[owner.id].add(node.attr)
            elif isinstance(owner, ast.Attribute):
                methods[owner.attr].add(node.attr)
    return methods


def compiled(module: str, function: str, call: ast.Call) -> re.Pattern[Any]:
    """The pattern of a call, in the words of its module; parts made at run time stand for `a|b`."""
    names = vars(import_module(module)) | {"re": re}
    flags = call.args[1:2] if function == "compile" else []
    try:
        pattern, *options = [
            eval(ast.unparse(argument), names) for argument in [*call.args[:1], *flags]
        ]
    except NameError:
        return re.compile("a|b")
    return pattern if isinstance(pattern, re.Pattern) else re.compile(pattern, *options)


def sample(node: Any) -> str:
    """A short text that a part of a parsed pattern matches."""
    kind, value = node
    if kind is kinds.LITERAL:
        return chr(value)
    if kind is kinds.NOT_LITERAL:
        return "a" if value != ord("a") else "~"
    if kind is kinds.IN:
        return str(member(value))
    if kind is kinds.ANY:
        return "a"
    if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
        return "".join(map(sample, value[2])) * int(max(1, min(value[0], 40)))
    if kind is kinds.BRANCH:
        return "".join(map(sample, value[1][0]))
    if kind in (kinds.SUBPATTERN, kinds.ATOMIC_GROUP):
        return "".join(map(sample, value[-1] if kind is kinds.SUBPATTERN else value))
    return ""


def member(choices: list[Any]) -> str:
    """A character of a class."""
    kind, value = choices[0]
    if kind is kinds.NEGATE:
        shut = re.compile(
            "[" + "".join(map(re.escape, map(member, ([c] for c in choices[1:])))) + "]"
        )
        return next(c for c in "a ~1" if not shut.match(c))
    if kind is kinds.CATEGORY:
        return SAMPLES[value]
    return chr(value[0] if kind is kinds.RANGE else value)


def parts(parsed: Any) -> Iterator[list[Any]]:
    """All sequences in a parsed pattern, the whole first."""
    yield list(parsed)
    for kind, value in parsed:
        inside: list[Any] = []
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
            inside = [value[2]]
        elif kind is kinds.BRANCH:
            inside = value[1]
        elif kind is kinds.SUBPATTERN:
            inside = [value[-1]]
        elif kind is kinds.ATOMIC_GROUP:
            inside = [value]
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            inside = [value[1]]
        for each in inside:
            yield from parts(each)


def hostile(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """What to repeat, made of the pattern's own parts, with what may come before and after."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    sequences = list(parts(parser.parse(text, pattern.flags & ~re.UNICODE)))
    atoms = {sample(node) for sequence in sequences for node in sequence} - {""}
    singles = sorted(atom for atom in atoms if len(atom) < 3)[:12]
    wholes = {"".join(map(sample, s[:end])) for s in sequences for end in range(1, len(s) + 1)}
    units = {*atoms, *wholes, *("".join(pair) for pair in product(singles, repeat=2))} - {""}
    befores = sorted(wholes | {""}, key=len)[:6]
    yield from product(befores, sorted(units), ("", "\0", "\n!"))


def slow(used: Used) -> str | None:
    """What costs the pattern more than its length, as an expression; None where nothing does."""
    for before, unit, after in hostile(used.pattern):

        def spent(size: int, parts: tuple[str, str, str] = (before, unit, after)) -> float:
            return used.spent(parts[0] + parts[1] * (size // len(parts[1]) + 1) + parts[2])

        for size in STEPS:
            if spent(size) > SLOW * size + 0.0005 and grows(spent, size):
                return f"{before!r} + {unit!r} * n + {after!r}"
    return None


def grows(spent: Callable[[int], float], size: int) -> bool:
    """Whether a text four times as long costs far more than four times as much, however often.

    Each pair is measured at once: on a busy machine all may be slower a moment later.
    """
    endless = size == STEPS[0] and min(spent(size) for _ in range(3)) > 0.001
    return endless or all(spent(4 * size) > 8 * spent(size) for _ in range(5))
