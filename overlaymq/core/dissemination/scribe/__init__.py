"""scribe: a multicast tree per topic, grown from the routes of joins (Scribe JSAC III-A, NGC 3).

A node joins by routing to the topic's key. The first node on the way takes it as a child and stops the
message; if that node is not in the tree yet it becomes a *forwarder* and joins in turn. So the tree is the
union of the routes from the members to the root, and a join costs only what is new in it. The root gives
each batch its place in the topic's sequence and sends it to its children, and so on down.

- *Acknowledgement.* The parent answers with the path from the root to itself (FreePastry). A member is
  ready once that path begins at the root. A child that is on its parent's path has found a loop and joins
  again by a randomised route; whoever meets a join of a node on its own path lets it pass.
- *Soft state.* Children refresh, parents send heartbeats where no batch did; who is silent is forgotten or
  left (Scribe JSAC III-B.1). A broken link or a verified death is acted upon at once.
- *Repair.* Whoever loses its parent joins again; Pastry routes around the dead node. Its subtree stays.
- *The root moves.* A node that becomes the owner of the key leaves its parent. The old root hands over,
  and joins the new one as a child, so its tree moves as one. It sequences nothing from then on, and keeps
  back what it is given until the new root has taken its tree: otherwise that would be spread to nobody.
- *Leaving.* A node that will leave passes on what is on its way through it, its own publications among them,
  sends its children to its parent, and feeds them until they have gone there.
- *Copies.* While a node changes its parent, two may feed it. Whatever comes twice, by the root's number, is
  dropped; a second parent that keeps sending is told to stop.

Sizes of subtrees travel with joins and refreshes, so the root knows how many members there are.

``tree`` is a node's place in the tree: parent, path, children and their upkeep. ``moves`` sends children
elsewhere when a node has too many, ``shapes`` takes forwarders out that nobody needs, ``anycast`` searches.
``strategy`` is what a node does there: batches, the root's part, and the strategy contract.

Deviations: the papers' node learns its parent with the first message; ours is told. The papers do not say
what a forwarder does with the message of a node it cannot take; ours passes it on towards the root. Nor do
they let a forwarder leave on purpose other than by ceasing to be there; ours is a move, as in ``moves``.
"""

from overlaymq.core.dissemination.scribe.strategy import Scribe

__all__ = ["Scribe"]
