"""sv: Subscriber/Volunteer trees, in which nobody forwards content that it does not want (paper 004).

There are two trees. The *RPF tree* is the union of the routes of joins, as in Scribe; it carries joins and
probes only. The *forwarding tree* carries content. Its nodes are the root, the subscribers, and volunteers.

- *Join* (3.1). A join is routed towards the root. A node of the forwarding tree on its way offers to feed the
  joiner: it becomes a *candidate*. A volunteer does too, and joins itself. A node that is neither passes one
  join up; for all later ones it looks below itself: it sends a *probe* to each of its RPF children, which
  hand it to one random child each, until it meets the forwarding tree. The joiner takes the candidate that
  answers first.
- *Links* (3.2). The joiner makes a failure group (FUSE) of exactly the nodes on the way that the winning
  message took, the candidate and itself included. Until then, what a join has left at these nodes is
  tentative and expires. When the group fails, for whatever reason, each of them forgets the link, and the
  joiner joins again; those that it feeds stay with it. Whoever unsubscribes or leaves signals its groups, so
  departure, unsubscription and crash are one case. Joins that come to nothing are tried again, later and
  later.
- *Order* (3.2.2). Where a way turns from up to down, the node there remembers which of its branches feeds
  which. A join from one branch is never sent into a branch that it feeds, however indirectly.
- *Beats* (ours). That order is local to a node, and routes change: a node that joins again by another route
  could be led into its own subtree. So the root gives beats (epoch, number), which flow down the forwarding
  tree, and a node that feeds others takes only a candidate whose beat is newer than its own. *Why this is
  enough:* a node's beat never goes back while it feeds somebody, it comes from its parent alone, and stands
  still while it has none. So nobody's beat is older than that of those below it. A loop would be closed by
  a node that takes a parent from below itself; but that one's beat is not newer. A node that feeds nobody
  forgets its beat when it loses its parent, and the offers that it made with it: it has nothing to fear, and
  need not wait. But who was fed by it may believe so a little longer than itself: for a while it stays wary.
  Others ask for a beat (``SvWant``), which goes up to the root. *Does the case occur?* In the simulator, with
  the paper's order alone (``sv_trial --without-beats``), 18 of 30 seeds have loops; with beats, none has.
- *Nobody feeds too many* (ours). Who feeds as many as it may (``sv.max_children``) hands a join down the
  forwarding tree as the paper hands one down the RPF tree: the join goes to some of those that it feeds, a
  probe to one; who has room is a candidate, and the first one wins. The way leads through the full node, so
  it is in the failure group. A place that was offered to a join counts as taken until the offer expires; who
  has only such a place may be asked too, and keeps the join until it is fed itself. Offers to probes do not
  count, as most come to nothing; if more are taken than there is room for, the groups of the last ones fail,
  and these try again soon. So the bound holds at any time, in crowds too. Loops are excluded by beats alone,
  as above: who was handed a join is asked for a newer beat like any other. The paper has no bound. It
  expects O(log N) children, log^2 N at worst, and names rebalancing as a remedy that it has not built (3.3).
- *Nobody offers what it has not.* A subscriber that has no parent keeps joins and probes that come by until
  it has one. So two that look for a parent at the same time never take each other.

**Politeness of everything.** Publishers ask for the root and send content to it directly. Who is not the root
refuses it and says who is, and the publisher, which has kept a copy for a while, sends it there. A root that
is neither a subscriber nor a volunteer, and is root no more, gives up those that it feeds; the new root waits
a little for them before it spreads anything. One that leaves hands over first, and gives them up when it
goes. Only the root's last numbered batches of an `ordered` topic still come from it: handing them over is a
root's work.

``links`` is what a node remembers of ways through it, and ``order`` of its branches. ``place`` is its role
and beat, ``search`` its part in the joins of others, ``joining`` its own joins, ``polite`` its publications.

Deviations: a node sends a join up, though it has sent one already, if there is no branch below that it could
ask, or if the joiner has tried in vain before (the paper does not say what happens then). A child of the down
part of a way counts as an RPF child as long as the link lives. Branches whose own join is under way are asked
too: they answer once they are in.
"""

from overlaymq.core.dissemination.sv.strategy import Sv

__all__ = ["Sv"]
