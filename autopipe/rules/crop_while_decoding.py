from dataclasses import replace

from autopipe.functions.cheaper import crop
from autopipe.pipeline.ir import Map, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import Faster, NoErrorIsLost


@rule(keeps=Keeps.SEQUENCE)
def crop_while_decoding(node: Node) -> Rewrite | None:
    """map(decode_jpeg .. crop)  ->  map(decode_and_crop_jpeg)

    Only the part of an image that is cropped from it is decoded. The window may be random or depend on the size of
    the image, which is read from the head of the file, but not on its pixels. It is decoded with a margin, so that
    its border has the same bits. It needs: an image that is used for nothing but its size and one crop, no error that
    would be lost (damage outside the window is no longer noticed), and a measured gain.
    """
    match node:
        case Map():
            cropping = crop.crop_while_decoding(node.fn)
            if cropping is None:
                return None
            after = replace(node, fn=cropping)
            return Rewrite(after, (NoErrorIsLost(node.fn), Faster(node, after, over=node.input)))
    return None
