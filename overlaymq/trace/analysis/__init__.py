"""The analysis of traces on Spark: functions from DataFrames to DataFrames, and the whole of them.

``reading`` finds and reads traces. ``traffic`` adds up, ``clocks`` brings all nodes to one time,
``subscribers`` says who should have got what, ``journeys`` follows messages (with ``kernel``, on the
workers), ``order``, ``losses``, ``trees`` and ``relative`` say what their names do. ``tables`` and
``headline`` are for people; ``whole`` does everything.

Nothing is imported here: a worker of a cluster that reads one module must not need the others.
"""
