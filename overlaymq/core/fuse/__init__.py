"""Failure groups after FUSE (OSDI 2004; protocols.md 4.4 and 4.5): notices of failure that never fail.

A group is a set of nodes, one of which, its *root*, has made it. Groups never change and never recover. Once
a member has crashed, or has signalled, or has been notified, every other member that is up is notified, once,
within a time that does not depend on what else fails. This is one-way agreement: nobody is left behind
believing that the group is well. A notice does not say who has failed, or whether anybody has.

**How nobody is left behind.** Silence means failure. A member needs evidence for believing in its group, and
evidence comes over a tree, from the root, hop by hop, and gets old. Whoever stops to believe stops to
confirm, and so do, one after the other, all that depend on it. Everything else only makes things faster or
avoids false alarms: notices that are lost delay a member, but nothing that is lost can deceive it.

- *Edges* (``edges``). Two nodes that watch trees together tell each other a digest of the list of them, in
  the ring's heartbeats if they are neighbours there, in a ping of their own otherwise: one message per edge
  and period and direction, whatever the number of groups. Equal digests confirm every tree. Unequal ones
  make the two exchange their lists, and a tree that only one of them has is broken, unless it is younger
  than a grace period. What has not been confirmed for E seconds is broken.
- *Trees* (``trees``). A member routes an ``Install`` to the root. Every node on the way becomes a
  *delegate*: it watches the hop before and the hop after. A tree that breaks at one edge breaks whole: a
  *soft* notice runs along it, which the application never hears. A node needs no agreement to break a tree,
  only to keep it.
- *Groups* (``members`` and ``roots``). A member whose tree is broken asks the root for repair. The root
  asks all members directly, under the next sequence number, and they install their ways anew; so delegates
  that crash cause no false alarm. If a member does not answer within A seconds, or knows nothing of the
  group (it has restarted), the group has failed: a *hard* notice goes to all, directly. A member that
  waited 2A + W seconds for its repair fails by itself. Repairs of one group that follow each other are W
  seconds apart at most.

**The bound** (``bounds``). Let D be the most edges between a member and its root, and d the longest that a
message is under way. A member fails at time 0. If it had answered a repair before, its way may be installed
until 2A; from then on, edges break one after the other, D * E; a repair begins after W and fails after A: the
root is notified. Should every notice be lost, edges break down to each member, D * E, which then waits 2A +
W:

    B = 2 D (E + d) + 5 A + 2 W + 4 d

Without loss it takes about E + A for a crash, and a way to the root and back for a signal.

**Deviations.** FUSE hashes the sorted list with SHA-1; here it is the exclusive or of a hash per entry, which
costs the same however long the list is. FUSE's overlay pings its neighbours anyway; Pastry's routing table
entries are not pinged, so an edge along one is "newly probed", once for all groups. A route of more than D
hops is cut short: the delegate after D - 1 of them hands the message to the root itself. Numbers of tries
are FUSE's only where protocols.md knows them. There is no call to register a handler: for a group of a
topic the topic's strategy is called, at every member; for others, the application gets ``GroupFailed``.
"""

from overlaymq.core.fuse.service import MESSAGES, PART, Fuse, misnames_its_hop

__all__ = ["MESSAGES", "PART", "Fuse", "misnames_its_hop"]
