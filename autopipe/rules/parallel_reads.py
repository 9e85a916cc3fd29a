from autopipe.pipeline.files import read_one
from autopipe.pipeline.ir import FilesReader, Node
from autopipe.pipeline.signature import signature
from autopipe.rules._ahead import HELD_IN_TURN, in_turn
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import ErrorsSurface, Faster, FewAtOnce, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def parallel_reads(node: Node) -> Rewrite | None:
    """files(names)  ->  names | interleave(file, cycle_length=1, num_parallel_calls=AUTOTUNE)

    A reader of many files reads one to its end before it opens the next. So does this, and the sequence is the same,
    but the next files are opened and their beginnings read meanwhile, which hides the time they take to arrive or to
    be decompressed. It needs: more than one file, names that may be read ahead, no ``ignore_errors`` downstream,
    elements that take little memory, and a measured gain, since files in memory are read faster than their elements are
    handed over.
    """
    match node:
        case FilesReader(num_parallel_reads=None) if signature(node.input).cardinality != 1:
            fn = read_one(node)
            after = in_turn(node.input, fn, node.name)
            unseen = (ReadAheadUnseen(node.input), ErrorsSurface(fn))
            return Rewrite(after, (*unseen, FewAtOnce(node, HELD_IN_TURN), Faster(node, after, node.input)))
    return None
