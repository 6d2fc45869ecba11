"""Two nodes, one topic, one message.

    python examples/hello.py

The nodes share a process here only to keep the example short: give `seeds` an address on another
machine and nothing else changes.
"""

from __future__ import annotations

import trio

import overlaymq


async def main() -> None:
    async with (
        overlaymq.open_node(listen="127.0.0.1:0") as alice,  # no seeds: founds an overlay
        overlaymq.open_node(listen="127.0.0.1:0", seeds=[alice.address]) as bob,
        bob.subscribe("greetings") as greetings,
    ):
        await greetings.wait_ready()  # what is published from now on arrives
        receipt = await alice.publish("greetings", b"hello, ring", headers={"from": "alice"})
        message = await greetings.receive()

        print(f"bob got {message.payload.decode()!r} from {message.headers['from']}")
        print(f"  origin {message.origin}, number {message.seq}, {message.hops} hop(s)")
        print(f"  alice's receipt: {await receipt.wait('sent')} link(s) took it")


if __name__ == "__main__":
    trio.run(main)
