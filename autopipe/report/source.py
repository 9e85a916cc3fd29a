"""A rewritten pipeline as plain ``tf.data`` code, so that nobody depends on autopipe."""

from __future__ import annotations

import enum
import keyword
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

from autopipe.functions.function import Function, describe_callable
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.report.references import apart, callable_of, import_path, looks_up, public_name, reader_of
from autopipe.rules import catalogue

__all__ = ["Source", "source_of"]

_FUNCTION = "make_dataset"
# The methods of tf.data.Dataset, each with the fields of its node that are given by position and by name.
_METHODS: dict[type[ir.Node], tuple[str, str, str]] = {
    ir.Batch: ("batch", "batch_size", "drop_remainder num_parallel_calls deterministic"),
    ir.Cache: ("cache", "filename", ""),
    ir.Enumerate: ("enumerate", "start", ""),
    ir.Filter: ("filter", "predicate", ""),
    ir.FlatMap: ("flat_map", "fn", ""),
    ir.GroupByWindow: ("group_by_window", "key_func reduce_func", "window_size_func"),
    ir.IgnoreErrors: ("ignore_errors", "", "log_warning"),
    ir.Interleave: ("interleave", "fn", "cycle_length block_length num_parallel_calls deterministic"),
    ir.Map: ("map", "fn", "num_parallel_calls deterministic synchronous use_unbounded_threadpool"),
    ir.Prefetch: ("prefetch", "buffer_size", ""),
    ir.Rebatch: ("rebatch", "batch_size", "drop_remainder"),
    ir.Repeat: ("repeat", "count", ""),
    ir.Shard: ("shard", "num_shards index", ""),
    ir.Skip: ("skip", "count", ""),
    ir.Take: ("take", "count", ""),
    ir.Unbatch: ("unbatch", "", ""),
    ir.Window: ("window", "size shift stride", "drop_remainder"),
}
_MAY_BE_AUTOMATIC = frozenset({"num_parallel_calls", "num_parallel_reads", "cycle_length", "buffer_size"})
_READERS = {"tfrecord": "TFRecordDataset", "text": "TextLineDataset", "fixed_length": "FixedLengthRecordDataset"}
_OLD_NAMES = frozenset({"experimental_deterministic", "experimental_threading"})
_NO_GLOBAL_SEED = 87654321


@dataclass(frozen=True)
class Source:
    """The code of a pipeline.

    Attributes:
        code: a module with one function, which makes the dataset. What the code cannot hold is an argument of it.
        unwritten: what autopipe made that is no plain code, with the user's line and what it does; those are
            arguments too.
    """

    code: str
    unwritten: tuple[str, ...]


def source_of(rewriting: Rewriting, tree: ir.Node, title: str) -> Source:
    """Return the code that makes a pipeline.

    Args:
        rewriting: how it came to be.
        tree: the pipeline as it runs: ``rewriting.after`` with its knobs.
        title: what it is called.

    >>> import tensorflow as tf, autopipe
    >>> dataset = autopipe.optimize(tf.data.Dataset.range(9).batch(2), seconds=0)
    >>> for line in source_of(dataset.explain().rewriting, dataset.tree, "nine numbers").code.splitlines()[-5:]:
    ...     print(line)
    def make_dataset():
        dataset = tf.data.Dataset.range(0, 9)
        dataset = dataset.batch(2)
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
        return dataset
    """
    tree = trees.transform(tree, apart)
    each_once = {id(node): node for node in trees.walk(tree)}.values()
    writer = _Writer(rewriting, Counter(id(child) for node in each_once for child in node.inputs))
    last = writer.write(tree, "dataset")
    return Source(writer.module(title, last), tuple(writer.unwritten))


@dataclass
class _Writer:
    """Writes one pipeline, sources first, and gathers what the code needs around it."""

    rewriting: Rewriting
    uses: Counter[int]
    lines: list[str] = field(default_factory=list)
    imports: dict[str, list[str]] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    unwritten: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=lambda: {"dataset", "options", "tf", _FUNCTION})
    made: dict[int, str] = field(default_factory=dict)
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

    def write(self, node: ir.Node, into: str) -> str:
        """Write what makes a node, and return the variable that holds it; a node that is used twice is made once."""
        if id(node) in self.made:
            return self.made[id(node)]
        if len(node.inputs) == 1:
            inputs = [self.write(node.inputs[0], into)]
        else:
            inputs = [self.write(child, self.name("part")) for child in node.inputs]
        self.made[id(node)] = self._assign(node, inputs, into)
        return self.made[id(node)]

    def _assign(self, node: ir.Node, inputs: list[str], into: str) -> str:
        if isinstance(node, ir.ThreadPool) and not list(_threads(node)):
            return inputs[0]
        expression = _expression(self, node, inputs)
        target = self.name("shared") if self.uses[id(node)] > 1 else into
        self.lines.append(f"{target} = {expression}{f'  # {node.line}' if node.line else ''}")
        return target

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
        spec = _spec(node.dataset.element_spec)
        return self.argument(id(node.dataset), "data", f"what {method} got{where}: {rows}{spec}")


def _expression(writer: _Writer, node: ir.Node, inputs: list[str]) -> str:
    """Return what makes a node of the variables that hold its inputs."""
    match node:
        case ir.Source():
            return _source(writer, node)
        case ir.FilesReader(csv=None):
            return _reader(node, inputs[0])
        case ir.FilesReader():
            # It takes no dataset of names.
            return f"{inputs[0]}.flat_map(lambda file: {_reader(node, 'file')})"
        case ir.AssertCardinality(count=count):
            return f"{inputs[0]}.apply(tf.data.experimental.assert_cardinality({count}))"
        case ir.LegacyInterleave():
            return f"{inputs[0]}.apply({_legacy_interleave(writer, node)})"
        case ir.PaddedBatch():
            return f"{inputs[0]}.padded_batch({_padding(node, inputs[0])})"
        case ir.Shuffle():
            return f"{inputs[0]}.shuffle({_shuffling(writer, node)})"
        case ir.Zip():
            return f"tf.data.Dataset.zip({_nest(node.structure, inputs)}{_name_of(node)})"
        case ir.ChooseFrom(stop_on_empty=stop):
            options = "" if stop else ", stop_on_empty_dataset=False"
            return f"tf.data.Dataset.choose_from_datasets([{', '.join(inputs[1:])}], {inputs[0]}{options})"
        case ir.Concatenate():
            return f"{inputs[0]}.concatenate({inputs[1]}{_name_of(node)})"
        case ir.Options():
            return _with_options(writer, inputs[0], list(_settings(node.options)))
        case ir.ThreadPool():
            return _with_options(writer, inputs[0], list(_threads(node)))
    return f"{inputs[0]}{_method(writer, node)}"


def _source(writer: _Writer, node: ir.Source) -> str:
    match node:
        case ir.Tensors():
            return f"tf.data.Dataset.from_tensors({writer.data(node)}{_name_of(node)})"
        case ir.TensorSlices():
            return f"tf.data.Dataset.from_tensor_slices({writer.data(node)}{_name_of(node)})"
        case ir.Range(start=start, stop=stop, step=step):
            kind = node.dataset.element_spec.dtype.name
            output = "" if kind == "int64" else f", output_type=tf.{kind}"
            return f"tf.data.Dataset.range({start}, {stop}{f', {step}' if step != 1 else ''}{output}{_name_of(node)})"
    reason = _unwritten(node)
    what = f"{stage(node)} ({node.line or 'your code'}), and all before it{reason}"
    writer.missing(what)
    return writer.argument(id(node.dataset), "source", f"a dataset of {_spec(node.dataset.element_spec)}: {what}")


def _unwritten(node: ir.Source) -> str:
    """Return why a source is not written."""
    match node:
        case ir.Opaque(reason=reason):
            return f": {reason}"
        case ir.RandomNumbers():
            return ": its numbers come from a seed of its own"
    return ": it runs Python code that autopipe cannot name"


def _method(writer: _Writer, node: ir.Node) -> str:
    """Return the call of a method of ``tf.data.Dataset``; what is as it is by default is not written."""
    name, first, more = _METHODS[type(node)]
    defaults = {each.name: each.default for each in fields(node)}
    said = [each for each in first.split() if getattr(node, each) != defaults[each] or isinstance(node, ir.Prefetch)]
    given = [_value(writer, node, each) for each in said]
    given += [f"{each}={_value(writer, node, each)}" for each in more.split() if getattr(node, each) != defaults[each]]
    return f".{name}({', '.join(given)}{_name_of(node, bool(given))})"


def _value(writer: _Writer, node: ir.Node, name: str) -> str:
    value = getattr(node, name)
    if isinstance(value, Function):
        return _function(writer, node, value)
    return "tf.data.AUTOTUNE" if value == ir.AUTOTUNE and name in _MAY_BE_AUTOMATIC else repr(value)


def _name_of(node: ir.Node, after: bool = True) -> str:
    return f"{', ' if after else ''}name={node.name!r}" if node.name else ""


def _function(writer: _Writer, node: ir.Node, fn: Function) -> str:
    """Return what stands for the function of a stage: a name that is imported, plain code, or an argument."""
    called = callable_of(fn)
    if called is None:
        return _gathering(writer, fn) or _made(writer, node, fn)
    reader = reader_of(called)
    if reader is not None:
        return f"lambda file: {_reader(reader, 'file')}"
    public = public_name(called)
    if public:
        return public
    imported = import_path(called)
    return _given(writer, node, called) if imported is None else _imported(writer, *imported)


def _imported(writer: _Writer, module: str, path: str) -> str:
    root, *inner = path.split(".")
    if (module, root) not in writer.named:
        alias = writer.named[module, root] = writer.name(root)
        writer.imports.setdefault(module, []).append(root if alias == root else f"{root} as {alias}")
    return ".".join([writer.named[module, root], *inner])


def _given(writer: _Writer, node: ir.Node, called: Any) -> str:
    """Return the argument for a function that cannot be imported."""
    name, location = describe_callable(called)
    if str(getattr(called, "__module__", "")).startswith("tensorflow."):
        writer.missing(f"the function {name} inside of TensorFlow, at {node.line or stage(node)}")
    is_lambda = name == "<lambda>"
    what = f"{'the lambda' if is_lambda else f'the function {name}'} of {location or node.line or stage(node)}"
    wanted = f"lambda_{location.replace('.py:', '_')}" if location and is_lambda else name
    return writer.argument(id(called), wanted, f"{what}, which cannot be imported")


def _gathering(writer: _Writer, fn: Function) -> str | None:
    """Return the code of a function that looks rows of arrays up, if it does so with those of one source."""
    sources = (node for node in trees.walk(writer.rewriting.before) if isinstance(node, ir.TensorSlices))
    source = next((each for each in sources if fn.name == "gather" and looks_up(fn, each.components)), None)
    if source is None:
        return None
    data = writer.data(source)
    convert = f"{data} = tf.nest.map_structure(tf.convert_to_tensor, {data})"
    if convert not in writer.lines:
        writer.lines.append(convert)
    return f"lambda rows: tf.nest.map_structure(lambda array: tf.gather(array, rows), {data})"


def _made(writer: _Writer, node: ir.Node, fn: Function) -> str:
    """Return the argument for a function that autopipe made, and say in the code what it is."""
    steps = (step for step in writer.rewriting.steps if fn.name in step.after and fn.name not in step.before)
    by = {rule.name: f", by {rule.name}: {rule.shape}" for rule in catalogue()}
    why = "".join(by.get(step.rule, "") for step in islice(steps, 1))
    what = f'the function "{fn.name}" of {fn.location or node.line or "the source"}, which autopipe made{why}'
    if fn.concrete not in writer.named:
        writer.missing(what)
    takes, gives = _spec(fn.input_spec), _spec(fn.output_spec)
    return writer.argument(fn.concrete, fn.name, f"not written, see below; it takes {takes} and gives {gives}")


def _reader(node: ir.FilesReader, files: str) -> str:
    if node.csv is not None:
        return _csv(node, node.csv, files)
    given = [files]
    if node.record_bytes is not None:
        header, record, footer = node.record_bytes
        given += [str(record), f"header_bytes={header}", f"footer_bytes={footer}"]
    for name in ("compression_type", "buffer_size", "num_parallel_reads"):
        value = getattr(node, name)
        if value is not None:
            automatic = name == "num_parallel_reads" and value == ir.AUTOTUNE
            given.append(f"{name}={'tf.data.AUTOTUNE' if automatic else repr(value)}")
    return f"tf.data.{_READERS[node.kind]}({', '.join(given)}{_name_of(node)})"


def _csv(node: ir.FilesReader, form: ir.CsvFormat, files: str) -> str:
    columns = [_column(*column) for column in form.columns]
    arguments = {"compression_type": node.compression_type, **dict(form.arguments)}
    given = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
    return f"tf.data.experimental.CsvDataset({files}, [{', '.join(columns)}], {', '.join(given)})"


def _column(kind: str, default: bytes | None) -> str:
    if default is None:
        return f"tf.{kind}"
    value = default if kind == "string" else float(default) if "float" in kind else int(default)
    return _constant(value, kind)


def _legacy_interleave(writer: _Writer, node: ir.LegacyInterleave) -> str:
    sloppy = None if node.deterministic is None else not node.deterministic
    named = f"cycle_length={node.cycle_length}, block_length={node.block_length}, sloppy={sloppy}"
    ahead = f"buffer_output_elements={node.buffer_output_elements}"
    ahead += f", prefetch_input_elements={node.prefetch_input_elements}"
    return f"tf.data.experimental.parallel_interleave({_function(writer, node, node.fn)}, {named}, {ahead})"


def _padding(node: ir.PaddedBatch, source: str) -> str:
    import tensorflow as tf

    types = [part.dtype.name for part in tf.nest.flatten(signature(node.input).element_spec)]
    shapes = [f"tf.TensorShape({[None if size < 0 else size for size in shape]})" for shape in node.padded_shapes]
    values = [_constant(value, kind) for value, kind in zip(node.padding_values, types, strict=True)]
    like = f"tf.nest.pack_sequence_as({source}.element_spec, ["
    remainder = ", drop_remainder=True" if node.drop_remainder else ""
    return (
        f"{node.batch_size}, padded_shapes={like}{', '.join(shapes)}]), "
        f"padding_values={like}{', '.join(values)}]){remainder}{_name_of(node)}"
    )


def _constant(value: Any, kind: str) -> str:
    plain = value.item() if hasattr(value, "item") else value
    text = f"float('{plain}')" if isinstance(plain, float) else repr(plain)
    return f"tf.constant({text}, tf.{kind})"


def _shuffling(writer: _Writer, node: ir.Shuffle) -> str:
    given = [str(node.buffer_size)]
    if node.seeded:
        whole, own = node.seeds
        given.append(f"seed={own}")
        if whole != _NO_GLOBAL_SEED:
            writer.lines.append(f"# The same order takes tf.random.set_seed({whole}) before this.")
    if not node.reshuffle_each_iteration:
        given.append("reshuffle_each_iteration=False")
    return f"{', '.join(given)}{_name_of(node)}"


def _spec(spec: Any) -> str:
    """Return the type of an element, such as ``(uint8[32, 32, 3], int64[])``."""
    import tensorflow as tf

    match spec:
        case dict():
            return f"{{{', '.join(f'{key!r}: {_spec(each)}' for key, each in spec.items())}}}"
        case tuple():
            return _tuple([_spec(each) for each in spec])
        case tf.TensorSpec():
            shape = "[...]" if spec.shape.rank is None else str([*spec.shape])
            return f"{spec.dtype.name}{shape}"
    return " ".join(str(spec).split())


def _nest(structure: Any, parts: list[str]) -> str:
    """Return the nest of variables that stand in a structure by their positions."""
    if isinstance(structure, dict):
        return f"{{{', '.join(f'{key!r}: {_nest(each, parts)}' for key, each in structure.items())}}}"
    if isinstance(structure, tuple):
        return _tuple([_nest(each, parts) for each in structure])
    return parts[int(structure)]


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _with_options(writer: _Writer, source: str, settings: list[str]) -> str:
    writer.lines += ["options = tf.data.Options()", *(f"options.{each}" for each in settings)]
    return f"{source}.with_options(options)"


def _threads(node: ir.ThreadPool) -> Iterator[str]:
    if node.size:
        yield f"threading.private_threadpool_size = {node.size}"
    if node.max_intra_op_parallelism:
        yield f"threading.max_intra_op_parallelism = {node.max_intra_op_parallelism}"


def _settings(options: Any) -> Iterator[str]:
    """Yield what was set in the options of a dataset, or in a part of them."""
    usual = type(options)()
    for name, kind in vars(type(options)).items():
        if not isinstance(kind, property) or name in _OLD_NAMES:
            continue
        value = getattr(options, name)
        if isinstance(value, enum.Enum):
            text = f"tf.data.experimental.{type(value).__name__}.{value.name}"
        elif type(value).__module__ == type(options).__module__:
            yield from (f"{name}.{each}" for each in _settings(value))
            continue
        else:
            text = repr(value)
        if value != getattr(usual, name):
            yield f"{name} = {text}"
