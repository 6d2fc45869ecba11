"""Physical topologies: routers, links and routes, and the end nodes that hang on them.

- ``graph``: what every topology is and can be asked
- ``transit_stub``, ``mercator``: two generators
- ``routes``: shortest routes between all pairs; ``hierarchy``: routes between and inside ASs
- ``network``: end nodes on routers, as a network model of the simulator
- ``stress``: how many messages each physical link carries
- ``describe``: a topology in figures, beside the published ones
"""

from overlaymq.sim.topology.graph import Links, Topology, Tree
from overlaymq.sim.topology.mercator import Mercator, MercatorParameters
from overlaymq.sim.topology.network import TopologyNetwork
from overlaymq.sim.topology.stress import LinkStress, multicast_links
from overlaymq.sim.topology.transit_stub import TransitStub, TransitStubParameters

__all__ = [
    "LinkStress",
    "Links",
    "Mercator",
    "MercatorParameters",
    "Topology",
    "TopologyNetwork",
    "TransitStub",
    "TransitStubParameters",
    "Tree",
    "multicast_links",
]
