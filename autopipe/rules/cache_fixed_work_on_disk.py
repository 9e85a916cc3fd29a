from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.fixed_part import split_fixed_part
from autopipe.pipeline.ir import Map, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._caching import cached_before_mixing, nothing_to_keep
from autopipe.rules._obligations import (
    DiskNamed,
    FitsDisk,
    NoErrorIsIgnored,
    NotCachedYet,
    OneReader,
    OutgrowsMemory,
    ReadToItsEnd,
    RoundingUnseen,
    SameEveryEpoch,
    WorkBeforeChange,
    WorthCachingOnDisk,
)
from autopipe.rules._rounding import up_to_rounding


@rule(keeps=Keeps.SEQUENCE)
def cache_fixed_work_on_disk(node: Node) -> Rewrite | None:
    """map(f)  ->  map(fixed part of f) | cache(on disk) | map(rest of f)

    As ``cache_fixed_work``, where memory is too small and the user named a folder with ``disk_cache=``. The next run
    finds the cache again: its file is named after everything that decides its elements (functions, constants, the files
    read with their sizes and times, versions), is read only once it is whole, and is never written twice. It needs:
    what ``cache_fixed_work`` needs, a cache above the RAM budget that fits the disk, contents that can be identified
    with certainty, one place of the pipeline that reads it, and elements that cost more to make than to read back.
    """
    match node:
        case Map(one_for_one_in_order=True):
            try:
                parts = split_fixed_part(node.fn)
            except IllegalCutError:
                return None
            if nothing_to_keep(node.fn, parts):
                return None
            fixed, result = cached_before_mixing(node, parts, on_disk=True)
            fixable = (DiskNamed(), WorkBeforeChange(node.fn), NotCachedYet(node))
            same = SameEveryEpoch(fixed, node.fn if parts else None)
            safe = (*fixable, same, NoErrorIsIgnored(), OneReader(node), ReadToItsEnd(fixed))
            measured = (OutgrowsMemory(fixed), FitsDisk(fixed), WorthCachingOnDisk(fixed))
            exact = parts is None or rounds_alike(node.fn, *parts)
            unseen = RoundingUnseen(jumps_after_regrouping(node.fn))
            return up_to_rounding(result, safe, measured, exact=exact, unseen=unseen)
    return None
