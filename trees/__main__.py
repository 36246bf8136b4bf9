"""``python -m trees`` is ``regrow``."""

from trees.cli import main

main()
