"""Measurements of overlaymq beside its peers, each a program of its own.

`fanout` compares systems, `busy_application` asks whether a computing application delays the
overlay, `idle_node` what a node costs that does nothing. All three start real processes through
`harness` and talk to them in lines of JSON, whose other end is `child`.
"""
