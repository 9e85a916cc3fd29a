from dataclasses import replace

from autopipe.functions.batched.sampling import many_choices
from autopipe.pipeline.ir import Batch, ChooseFrom, Map, Node, RandomNumbers, Unbatch
from autopipe.rules._base import Keeps, Phase, Rewrite, rule

# The choices that share one call, which takes 40 us: with this many, unbatching a choice takes longer than making it.
_COUNT = 1024


@rule(keeps=Keeps.TRAINING, phase=Phase.BATCH)
def draw_many_choices(node: Node) -> Rewrite | None:
    """random_numbers | batch(2) | map(choose)  ->  random_numbers | batch(2) | map(choose 1,024) | unbatch

    ``sample_from_datasets`` draws two numbers for each element, and with them calls a function that draws which dataset
    the element is taken from: for cheap elements that is most of the work. One call can draw many choices,
    independently and with the same weights, though not the same ones. It needs: no seed of the author's, and weights
    that do not change.
    """
    match node:
        case ChooseFrom(choices=Map(input=Batch(batch_size=2, input=RandomNumbers(seeded=False))) as choosing):
            many = many_choices(choosing.fn, _COUNT)
            if many is not None:
                return Rewrite(replace(node, choices=Unbatch(input=replace(choosing, fn=many))), provided=())
    return None
