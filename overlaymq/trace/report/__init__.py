"""One page about a run: figures in words, plots, tables; a single file without scripts from elsewhere."""
