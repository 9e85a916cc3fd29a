"""What the code of a pipeline needs around it: imports, arguments, and what could not be written."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field
from typing import Any

from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir
from autopipe.report.source._literals import spec_text

__all__ = ["Writer"]

_FUNCTION = "make_dataset"
# The names that the code itself gives to what it makes, and to what its lambdas take.
_TAKEN = frozenset({"array", "dataset", "element", "file", "number", "options", "rows", "tf", _FUNCTION})


@dataclass
class Writer:
    """Gathers what the code of one pipeline needs around it."""

    rewriting: Rewriting
    lines: list[str] = field(default_factory=list)
    imports: dict[str, list[str]] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    unwritten: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=lambda: set(_TAKEN))
    named: dict[Any, str] = field(default_factory=dict)

    def module(self, title: str, last: str) -> str:
        """Return the whole module."""
        described = [f"    {name}: {what}" for name, what in self.arguments.items()]
        docstring = ['    """Return the dataset.', "", "    Args:", *(f"    {each}" for each in described), '    """']
        parts = [
            f'"""{title}, as autopipe optimized it, in plain tf.data."""'.replace("\\", "/"),
            "",
            "import tensorflow as tf",
            *(["", *self._imports()] if self.imports else []),
            "",
            "",
            f"def {_FUNCTION}({', '.join(self.arguments)}):",
            *(docstring if described else []),
            *(f"    {line}" for line in self.lines),
            f"    return {last}",
            "",
        ]
        return "\n".join(parts)

    def _imports(self) -> list[str]:
        return [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self.imports.items())]

    def name(self, wanted: str) -> str:
        """Return a name like the one wanted that nothing has yet."""
        plain = wanted if wanted.isidentifier() else re.sub(r"\W+", "_", wanted).strip("_") or "value"
        plain = f"_{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) else plain
        numbered = (plain if number == 1 else f"{plain}_{number}" for number in range(1, 10**6))
        found = next(each for each in numbered if each not in self.taken)
        self.taken.add(found)
        return found

    def argument(self, key: Any, wanted: str, what: str) -> str:
        """Return the argument of the function that stands for something no code can hold."""
        if key not in self.named:
            self.named[key] = self.name(wanted)
            self.arguments[self.named[key]] = what
        return self.named[key]

    def missing(self, what: str) -> None:
        """Note, also in the code, something that autopipe made and no code can say."""
        self.unwritten.append(what)
        self.lines.append(f"# Not written: {what}")

    def data(self, node: ir.Tensors | ir.TensorSlices) -> str:
        """Return the argument for the arrays of a source."""
        method = "from_tensors" if isinstance(node, ir.Tensors) else "from_tensor_slices"
        where = f" in {node.line}" if node.line else ""
        rows = "" if isinstance(node, ir.Tensors) else f"{int(node.components[0].shape[0]):,} rows of "
        spec = spec_text(node.dataset.element_spec)
        return self.argument(id(node.dataset), "data", f"what {method} got{where}: {rows}{spec}")
