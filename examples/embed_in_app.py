"""An application that has its own work, and embeds a node beside it.

    python examples/embed_in_app.py [SECONDS]

A greenhouse: one task reads a thermometer, another works the window. They know nothing of each other but
the topic, so either could move to another process or machine tomorrow. The node lives in the
application's own nursery: what ends the application ends the node, and its errors are ordinary errors.
"""

from __future__ import annotations

import math
import sys

import trio

import overlaymq

READINGS = "greenhouse/temperature"
TOO_WARM = 25.0


async def read_thermometer(node: overlaymq.Node) -> None:
    """The application's own work: measure, and publish."""
    readings: overlaymq.Topic[float] = node.topic(READINGS, "json")
    await node.wait_subscribers(READINGS)  # nothing is published before someone listens
    for minute in range(sys.maxsize):
        await readings.publish(22 + 6 * math.sin(minute / 10))
        await trio.sleep(0.02)


async def work_window(node: overlaymq.Node) -> None:
    """Only the present matters here: `latest` holds one reading, and drops what is out of date."""
    is_open = False
    readings: overlaymq.Topic[float] = node.topic(READINGS, "json")
    async with readings.subscribe(when_full="latest") as temperatures:
        async for celsius, _ in temperatures:
            if (celsius > TOO_WARM) != is_open:
                is_open = not is_open
                print(f"{celsius:.1f} C: window {'opened' if is_open else 'closed'}", flush=True)


async def main(seconds: float) -> None:
    async with (
        overlaymq.open_node(listen="127.0.0.1:0") as station,
        overlaymq.open_node(listen="127.0.0.1:0", seeds=[station.address]) as cabinet,
    ):
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as greenhouse:
                greenhouse.start_soon(read_thermometer, station)
                greenhouse.start_soon(work_window, cabinet)
        print(f"the window's node delivered {cabinet.statistics().delivered} readings")


if __name__ == "__main__":
    trio.run(main, float(sys.argv[1]) if len(sys.argv) > 1 else 3.0)
