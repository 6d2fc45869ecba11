"""The figures of the SCAMP paper, and what our default mode is held to beside it.

Ids, ranges and remarks are those of the reproduction list (protocols.md 7.3). Where it gives no tolerance,
the remark says what we took.
"""

from __future__ import annotations

import math

from overlaymq.sim.target import Target

SCAMP = (
    *(
        Target(
            f"SM-1/{k}",
            f"share of runs that reach all, fanout log n + {k} (section 2.1)",
            "exp(-exp(-k))",
            remark="+- 0.1: three standard deviations of 200 runs; the figure is a limit",
        )
        for k in (0, 1, 2)
    ),
    Target(
        "SM-2",
        "share of runs that reach all, links failing w.p. 0.3, fanout (log n + 1)/(1 - 0.3) (section 2.2)",
        "exp(-exp(-1)): the threshold is log n/(1-epsilon)",
        math.exp(-math.exp(-1)) - 0.1,
        math.exp(-math.exp(-1)) + 0.1,
        "as SM-1",
    ),
    *(
        Target(
            f"SM-3/{c}",
            f"mean view, c={c} (section 2.2)",
            "(c+1) log n",
            remark="(c+1)(H_n-1) +- 0.6 for each copy, as SM-6",
        )
        for c in (0, 1)
    ),
    Target(
        "SM-4",
        "steps before a copy is kept (section 2.2)",
        "about (c+1) log n",
        6.0,
        7.0,
        "simulated 6-7 at c=0 (protocols.md 7.3): lower",
    ),
    Target(
        "SM-5",
        "receptions of a request that are dealt with (section 2.2)",
        10.0,
        10.0,
        10.0,
        "exact",
    ),
    Target("SM-6/mean", "mean view; n=50,000 (Fig 1)", 10.8, 10.2, 11.4, "+- 0.6"),
    Target("SM-6/max", "largest view, mean of the runs; n=50,000 (Fig 1)", 39.0, 34.0, 45.0),
    Target("SM-7", "mean view; n=100,000 (Fig 2)", 11.5, 10.9, 12.1, "about log n, +- 0.6"),
    Target(
        "SM-8",
        "mean view; n=100, 100 runs (section 4.2)",
        3.9,
        remark="log 100 = 4.6; literal code gives 4.6",
    ),
    *(
        Target(
            f"SM-9/{share}",
            f"reach of SCAMP less that of full membership, {share} % failed (Fig 3)",
            '"almost as high"',
            -0.03,
            0.03,
            "no tolerance is given: 3 %",
        )
        for share in (10, 30, 50)
    ),
    Target(
        "SM-9/70", "reach of SCAMP less that of full membership, 70 % failed (Fig 3)", "not stated"
    ),
    Target(
        "SM-9/reach",
        "reach, 50 % failed, source = first node (Fig 3)",
        '"remains very high"',
        0.95,
        1.0,
        "the reproduction list's simulation: 0.980 at n=50,000",
    ),
    *(
        Target(
            f"SM-10/{share}",
            f"sources that reach neither nobody nor as many as full membership, {share} % failed (Fig 4)",
            "none: bimodal",
            0.0,
            0.0,
            "neither: between 1 % and 5 % less than full membership",
        )
        for share in (10, 50)
    ),
    Target(
        "SM-10/zeros 10",
        "share of random sources that reach nobody, 10 % failed (Fig 4)",
        "2 of 10",
        0.025,
        0.556,
        "the 95 % interval of 2 in 10",
    ),
    Target(
        "SM-10/zeros 50",
        "share of random sources that reach nobody, 50 % failed (Fig 4)",
        "3 of 10",
        0.067,
        0.652,
        "the 95 % interval of 3 in 10",
    ),
    Target(
        "SM-11",
        "mean view, c=1; n=50,000 (Fig 5)",
        "centre moves to (c+1) log n (curve lost)",
        2 * math.log(50_000) * 0.9,
        2 * math.log(50_000) * 1.1,
        "no tolerance is given: +- 10 %",
    ),
    *(
        Target(
            f"SM-12/{share}",
            f"atomic share, c=0, {share} % failed; n=10,000 (Fig 6)",
            "very low",
            None,
            0.2,
            '"very low": at most 2 of 10',
        )
        for share in (20, 30)
    ),
    *(
        Target(
            f"SM-13/{share}", f"atomic share, c=1, {share} % failed; n=10,000 (Fig 6)", published
        )
        for share, published in ((10, 0.9), (20, 1.0), (30, "high"), (40, "not stated"))
    ),
    Target(
        "SM-14",
        "lowest reach of the runs that are not atomic, up to 30 % failed (Fig 6)",
        "very close to 1",
        0.99,
        1.0,
        "no tolerance is given: 1 %",
    ),
    Target(
        "SM-15",
        "change of the mean view when half unsubscribe (Table 1, cells lost)",
        -math.log(2),
        -math.log(2) - 0.1,
        -math.log(2) + 0.1,
        "+- 0.1",
    ),
    Target(
        "SM-16",
        "change of the reach when half have unsubscribed, mean over 0 to 50 % failed (Fig 7)",
        "slightly lower",
        -0.005,
        -0.002,
        "-0.002...-0.005",
    ),
    Target(
        "SM-16/least",
        "the same, nobody failed",
        "slightly lower",
    ),
    Target(
        "SM-16/most",
        "the same, the largest of all shares",
        "slightly lower",
    ),
    Target(
        "SM-17",
        "sd of view sizes after one lease over that before (Fig 8)",
        "sharper around the mean",
        None,
        0.8,
        "no tolerance is given; sd 5.4 to 3.5 in the reproduction list's simulation",
    ),
    Target("SM-18", "reach after one lease, 50 % failed (Fig 9)", 0.998, 0.995, None, ">= 0.995"),
    Target(
        "SM-19",
        "reach of random sources less that of the first node, after one lease, 50 % failed (Fig 9)",
        "no penalty",
        -0.01,
        0.01,
        "no tolerance is given: 1 %",
    ),
    Target(
        "SM-20/mean",
        "mean view; single contact, no indirection, {n} nodes (section 4.6)",
        "789.83 at n=50,000 (target 10.8)",
    ),
    Target(
        "SM-20/sd",
        "sd of views; single contact, no indirection, {n} nodes (section 4.6)",
        "208.23 at n=50,000",
    ),
    Target(
        "SM-21",
        "mean view; single contact and indirection (Fig 10)",
        8.68,
        7.98,
        9.38,
        "+- 0.7",
    ),
    Target(
        "SM-22",
        "reach with a single contact and indirection less that with random contacts, 30 % failed (Fig 11)",
        "slightly below",
        -0.03,
        0.0,
        "no tolerance is given: 3 %; explained by the smaller mean view",
    ),
    Target(
        "SM-23",
        "arcs that a resubscription with c=1 copies adds above the size of its contact's view (section 3.2)",
        1.0,
        0.95,
        1.05,
        "-(c+1) log n, then +(c+1) log n + c; no tolerance is given: 5 %",
    ),
    Target("SM-24", "n; group sizes tested (section 4.1)", "100 ... 100,000"),
)

SCAMP_FIXES = (
    Target(
        "SMD-1",
        "mean view over ln n, the farthest from 1 at the ends of 20 leases, default mode, {n} nodes",
        "1",
        0.85,
        1.15,
        "the issue: within 15 %",
    ),
    Target("SMD-1/start", "the same before the first lease ends, all subscribed at once", "1"),
    Target(
        "SMD-1/time",
        "the same, mean over the time of a lease, the farthest from 1 after the first",
        "1",
    ),
    Target(
        "SMD-1/moment",
        "the same, the most at any moment: all renew at once, and old arcs stand beside new ones",
        "1",
    ),
    Target(
        "SMD-1/own view",
        "the same after 5 leases, renewed through the own view (without `uniform_renewal`)",
        "drifts",
    ),
    Target(
        "SMD-2",
        "payload copies for each delivery, default mode, steady state",
        "1",
        None,
        1.2,
        "the issue: at most 1.2",
    ),
    Target("SMD-2/paper", "the same, paper mode", "the mean view"),
    Target(
        "SMD-3",
        "share of runs that reach every live subscriber after half have failed and links recovered",
        "1",
        0.99,
        None,
        "the issue: 99 of 100 runs",
    ),
    Target("SMD-3/first", "share of survivors reached by the first message after the failure", "1"),
    Target(
        "SMD-3/first atomic", "share of runs whose first message reaches them all", "not stated"
    ),
    Target(
        "SMD-3/paper", "share of runs that reach all, paper mode, recovered alike", "not stated"
    ),
    Target("SMD-3/paper first", "share reached by the first message, paper mode", "0.95"),
    *(
        target
        for fix in ("pull", "backups")
        for target in (
            Target(
                f"SMD-3/without {fix}", f"share of runs that reach all, without {fix}", "not stated"
            ),
            Target(
                f"SMD-3/without {fix} first",
                f"share reached by the first message, without {fix}",
                "not stated",
            ),
        )
    ),
)
"""What the default mode must do; the ids are our own."""
