from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autopipe.quiet import load_tensorflow

__all__ = ["demo"]


def demo(
    images: Annotated[
        Path | None,
        typer.Option(help="A folder of class folders of .jpg files; by default one is made.", show_default=False),
    ] = None,
    mobilenet: Annotated[
        bool, typer.Option("--mobilenet", help="Train MobileNetV2 in place of a small net; for a GPU.")
    ] = False,
) -> None:
    """Train on photographs as a newcomer writes it, then with autopipe, and compare. Takes a minute or two."""
    load_tensorflow()
    from autopipe.examples import flowers

    flowers.main(images=images, mobilenet=mobilenet)
