"""Shapes in annotations, checked while the tests run: an import hook that holds whence's functions to what they say.

The package writes its shapes under `TYPE_CHECKING`, as jaxtyping is no dependency of its users. Here every function and
dataclass whose annotations name a shape is wrapped: after each call that did not fail, arguments and result must have
those shapes, an axis of one name the same length throughout the call. Among the items of a list an axis may differ, as
texts do in length, unless an array beside the list fixes it.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from jaxtyping import AbstractArray, jaxtyped
from jaxtyping._storage import get_shape_memo, set_shape_memo

SHAPED = ("Bool", "Float", "Int", "Real", "Shaped")
CHECK, CHECK_RECORD = "__shapes_checked__", "__record_shapes_checked__"
_only_for_types: dict[str, types.CodeType] = {}  # by module, what it imports and names under TYPE_CHECKING


class ShapeError(AssertionError):
    """An array is not of the shape that the annotation promises. (No code of whence catches an AssertionError.)"""


def install(package: str) -> importlib.abc.MetaPathFinder:
    """From here on, modules of the package are checked as they are imported."""
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    return finder


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(self._prefix):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name: str) -> Any:
        source = self.get_data(self.path)
        if b"jaxtyping" not in source:
            return super().get_code(name)
        # never from or into the cache of compiled files, which other processes use
        return self.source_to_code(source, self.path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        tree = ast.parse(data)
        if b"jaxtyping" in data:
            _only_for_types[self.name] = _type_checking_part(tree)
            _Decorating().visit(tree)
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True, optimize=_optimize)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)[CHECK] = checked
        vars(module)[CHECK_RECORD] = checked_record
        super().exec_module(module)


def _type_checking_part(tree: ast.Module) -> types.CodeType:
    body = [
        statement
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
    ]
    return compile(ast.Module(body, []), "<under TYPE_CHECKING>", "exec")


class _Decorating(ast.NodeTransformer):
    """Puts the check nearest to every function with shapes, and farthest from every dataclass with some."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        each = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if any(_shaped(annotation) for annotation in (node.returns, *(one.annotation for one in each))):
            node.decorator_list.append(ast.Name(CHECK, ast.Load()))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        fields = any(isinstance(each, ast.AnnAssign) and _shaped(each.annotation) for each in node.body)
        if fields and any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            node.decorator_list.insert(0, ast.Name(CHECK_RECORD, ast.Load()))
        return node


def _shaped(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(each, ast.Name) and each.id in SHAPED for each in ast.walk(annotation)
    )


def checked(function: Any) -> Any:
    """The function, its shapes checked after each call that did not fail."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    where = f"{function.__module__}.{function.__qualname__}"

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        hints = hints_of(function)
        values = [(name, value) for name, value in zip(names, args, strict=False) if name in hints]
        values += [(name, value) for name, value in kwargs.items() if name in hints]
        if "return" in hints:
            values.append(("return", result))
        complain(where, hints, values)
        return result

    # With the globals of the function's own module, by which doctest tells what belongs to a module. They lack the
    # names that `call` uses, so these are its own variables.
    hints_of, complain = _hints, _complain
    own = types.FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return functools.update_wrapper(own, function)


def checked_record(kind: Any) -> Any:
    """The dataclass, the shapes of its fields checked whenever one is made."""
    make = kind.__init__

    @functools.wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        hints = _hints(kind)
        _complain(f"{kind.__module__}.{kind.__qualname__}", hints, [(name, getattr(self, name)) for name in hints])

    kind.__init__ = init
    return kind


_found: dict[Any, dict[str, Any]] = {}  # by code of a function, which may be made anew with each call, or by class
_namespaces: dict[str, dict[str, Any]] = {}


def _hints(of: Any) -> dict[str, Any]:
    """The annotations that hold a shape, worked out when first needed: by then what they name can be imported."""
    key = getattr(of, "__code__", of)
    if key not in _found:
        module = of.__module__
        if module not in _namespaces:
            _namespaces[module] = dict(vars(sys.modules[module]))
            exec(_only_for_types[module], _namespaces[module])
        written = {
            name: hint for name, hint in of.__annotations__.items() if _shaped(ast.parse(hint, mode="eval").body)
        }
        _found[key] = {name: eval(hint, _namespaces[module]) for name, hint in written.items()}
    return _found[key]


_right: set[Any] = set()  # forms of calls that were found right: most calls have the form of one before


def _form(value: Any) -> Any:
    """All of a value that a check of shapes looks at."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return type(value), value.dtype, tuple(value.shape)
    if isinstance(value, Mapping):
        return type(value), tuple(map(_form, value.values()))
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_form, value))
    return type(value), value if isinstance(value, (str, int)) else None


def _complain(where: str, hints: Mapping[str, Any], values: Sequence[tuple[str, Any]]) -> None:
    form = (where, tuple((name, _form(value)) for name, value in values))
    if form in _right:
        return
    with jaxtyped("context"):  # type: ignore[call-overload]
        for name, value in values:
            wrong = _wrong(value, hints[name])
            if wrong:
                told = ", ".join(f"{each} {_shown(other)}" for each, other in values)
                raise ShapeError(f"{where}: {name} should be {hints[name]}: {wrong} ({told})")
    _right.add(form)


def _shown(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__


def _wrong(value: Any, hint: Any) -> str:
    """What is wrong with a value, as far as shapes go; empty if nothing is."""
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return str(hint.__instancecheck_str__(np.asarray(value) if isinstance(value, np.generic) else value))
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        complaints = []
        for part in parts:
            complaints.append(_wrong(value, part))
            if not complaints[-1]:
                return ""
        return " and ".join(complaints)
    if origin is Literal:
        return "" if value in parts else f"{value!r} is none of {parts}"
    kind: Any = (int, float, np.number) if hint in (int, float) else origin or hint
    if not isinstance(value, kind):
        return f"{type(value).__name__} is no {hint}"
    if origin is tuple and parts[-1] is not Ellipsis:
        return next(filter(None, map(_wrong, value, parts)), "")
    if isinstance(value, Mapping):
        value = list(value.values())
    for item in value if parts and isinstance(value, (list, tuple)) else ():
        axes = [memo.copy() for memo in get_shape_memo()]
        wrong = _wrong(item, parts[-1] if parts[-1] is not Ellipsis else parts[0])
        set_shape_memo(*axes)
        if wrong:
            return wrong
    return ""
