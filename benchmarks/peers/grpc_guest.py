"""experiment: asyncio as a guest in trio's thread."""
from __future__ import annotations
import overlaymq.transport.grpc_core
import asyncio, heapq, time
from collections import deque
from contextlib import asynccontextmanager
import trio
from . import grpc_stream
LOOP = "trio"

class Loop(asyncio.AbstractEventLoop):
    def __init__(self):
        self.ready = deque(); self.timers=[]; self.n=0; self.pumping=False; self.readers={}
    def get_debug(self): return False
    def is_running(self): return True
    def is_closed(self): return False
    def time(self): return time.monotonic()
    def create_future(self): return asyncio.Future(loop=self)
    def create_task(self, coro, *, name=None, context=None): return asyncio.Task(coro, loop=self, name=name)
    def call_soon(self, cb, *args, context=None):
        h=asyncio.Handle(cb,args,self,context); self.ready.append(h); return h
    def call_soon_threadsafe(self, cb, *args, context=None): return self.call_soon(cb,*args,context=context)
    def call_later(self, d, cb, *args, context=None): return self.call_at(self.time()+d, cb, *args, context=context)
    def call_at(self, when, cb, *args, context=None):
        h=asyncio.TimerHandle(when,cb,args,self,context); h._scheduled=True
        async def wait():
            await trio.sleep(max(0,when-self.time()))
            if not h._cancelled: self.ready.append(h); self.pump()
        trio.lowlevel.spawn_system_task(wait)
        return h
    def _timer_handle_cancelled(self,h): pass
    def call_exception_handler(self, ctx): print(ctx)
    def default_exception_handler(self, ctx): print(ctx)
    def add_reader(self, fd, cb, *args):
        async def watch():
            while True:
                await trio.lowlevel.wait_readable(fd)
                cb(*args)
                self.pump()
        self.readers[fd]=1
        trio.lowlevel.spawn_system_task(watch)
    def remove_reader(self, fd): return True
    def pump(self):
        if self.pumping: return
        self.pumping=True
        asyncio._set_running_loop(self)
        ready=self.ready
        try:
            while ready:
                h=ready.popleft()
                if not h._cancelled: h._run()
        finally:
            asyncio._set_running_loop(None); self.pumping=False
    async def perform(self, work):
        done=trio.Event(); r=[]
        async def run():
            r.append(await work); done.set()
        self.create_task(run()); self.pump()
        await done.wait(); return r[0]

class Publisher:
    def __init__(self, loop, feed):
        self._loop=loop; self._feed=feed; self.address=feed.address
    async def wait_subscribers(self,count): pass
    async def burst(self,payload,count): await self._loop.perform(self._feed.burst(payload,count))
    async def send(self,payload):
        self._loop.create_task(self._feed.send(payload)); self._loop.pump()

@asynccontextmanager
async def publisher(broker):
    loop=Loop()
    asyncio.set_event_loop(loop)
    serving=grpc_stream.publisher(broker)
    feed=await loop.perform(serving.__aenter__())
    yield Publisher(loop,feed)

class _Relay:
    def __init__(self):
        self.arrived=deque(); self.lot=trio.lowlevel.ParkingLot(); self.take=self._take
    def _take(self,payload):
        self.arrived.append(payload); self.lot.unpark()

async def subscriber(address, receiver):
    relay=_Relay(); loop=Loop(); asyncio.set_event_loop(loop)
    t=loop.create_task(grpc_stream.subscriber(address, relay)); loop.pump()
    while True:
        await relay.lot.park()
        while relay.arrived: receiver.take(relay.arrived.popleft())
