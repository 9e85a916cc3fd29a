"""``python -m autopipe`` is the command ``autopipe``."""

from autopipe.cli.main import run

if __name__ == "__main__":
    run()
