"""What CONTRIBUTING.md says of the code is true."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {path.relative_to(ROOT / "autopipe").as_posix(): path for path in (ROOT / "autopipe").rglob("*.py")}
SOURCES |= {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "callbacks").glob("*.py")}
TREES = {name: ast.parse(path.read_text()) for name, path in SOURCES.items()}
# Of Python's own library: private by their names only.
DOCUMENTED = {"_asdict", "_exit", "_getframe"}
# It relies on names in what TensorFlow tells in public.
BY_NAME_ONLY = {"planning/costs/stages.py"}
# They have a private name of TensorFlow's for their own.
IN_PLACE_OF = {"runtime/dataset.py", "runtime/derived.py", "runtime/taker.py"}


def is_private(name):
    return isinstance(name, str) and re.match("_(?!_|autopipe)", name) is not None


def named_here(tree):
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def private_parts(tree):
    """Yield the names, of attributes and modules, that a module uses though they are private to others."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if is_private(name):
                yield name
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]) if is_private(name):
                yield name
            case ast.ImportFrom(module=str(module)) if re.match(r"tensorflow\.(python|core)", module):
                yield module
            case ast.Attribute(ctx=ast.Store()) if ast.unparse(node).startswith("tf."):
                yield ast.unparse(node)


def test_it_lists_the_modules_that_use_private_parts_of_tensorflow():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paragraph = text[text.index("Private parts of TensorFlow") :].partition("\n\n")[0]
    places = re.findall(r"`([\w/]+(?:\.py|/))`", paragraph)
    listed = {name for name in TREES if name.startswith(tuple(places))}
    private = {name for name, tree in TREES.items() if set(private_parts(tree)) - set(named_here(tree)) - DOCUMENTED}
    using = private | BY_NAME_ONLY | IN_PLACE_OF
    assert listed == using
    assert all(any(name.startswith(place) for name in using) for place in places if "tests/" not in place)
