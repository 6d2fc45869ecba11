"""Traces: what nodes and simulations write down, in one format (``schema``)."""
