from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.functions.parts.draws import draws_in_order
from autopipe.pipeline.ir import AUTOTUNE, Map, Node
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import NoNewReadAhead, NotSlower, OrderUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def parallel_map(node: Node) -> Rewrite | None:
    """map(f)  ->  map(f, num_parallel_calls=AUTOTUNE)

    Calls of f run at once and their results are put back in order, so the sequence is the same. TensorFlow does
    this by itself for functions without state; it does not for those that draw random numbers without a seed, or
    read a variable. They are changed too under keeps="training", unless measured slower: which element gets which draw
    changes, and a value assigned in mid-epoch takes effect up to some dozens of elements later. It needs: nothing in f
    from which the order of calls could be seen, and nothing upstream that could be seen to run further ahead than it
    does.
    """
    match node:
        case Map(use_inter_op_parallelism=False):
            # TensorFlow's own map, such as the one that draws for sample_from_datasets: hardly any work.
            return None
        case Map(num_parallel_calls=None, synchronous=False) if not draws_in_order(node.fn):
            parallel = replace(node, num_parallel_calls=AUTOTUNE)
            unseen = (OrderUnseen(node.fn), NoNewReadAhead(node))
            found = effects(node.fn)
            if found.unseeded_random or found.variable_reads:
                return Rewrite(parallel, (*unseen, NotSlower(node, parallel, over=node.input)), keeps=Keeps.TRAINING)
            return Rewrite(parallel, provided=unseen)
    return None
