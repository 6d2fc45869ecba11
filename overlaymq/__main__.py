"""`python -m overlaymq` is the `overlaymq` command."""

from overlaymq.cli import main

main(prog_name="overlaymq")
