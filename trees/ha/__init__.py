"""One of several processes leads a tree, the others wait and take over: how a candidate stands, and what is guaranteed.

``start(TREE, store=URL, ha=HA(lease_s=10))`` makes a *candidate*. Which one leads is a row in the store that they
share, the *lease* (``trees.store.lease``): who, until when by the store's clock, and the *token*, a number that grows
with every change of hands. It works like the leader election of Kubernetes' client-go, with the times below.

The life of a candidate::

    standby --the lease is free, or ran out--> opens the store --> starts the tree --> leads
       |                                            |                    |               |
       +--asked to stop------------------------> over <-- gives the lease back <-- the tree is down

Times, as parts of the lease, counted from *before* the last renewal that succeeded was sent, on a local clock that goes
on while the process or the machine sleeps:

* 1/5: the next renewal is sent; again and again where it fails.
* 1/2: it could not be renewed: the tree is stopped in order, and whatever comes, it is not started again.
* 3/4: nothing is started any more (``actors.tasks.journal.local_lease``), and what still runs is killed.
* 1: the store lets another one have it. A standby looks every quarter of the lease, at most a second apart, and at the
  moment when the lease that it last saw runs out: so it takes over within the lease and a second. While it reads the
  journals nothing is started, so no missing renewal ends it: it starts the tree when it has read them and the lease is
  fresh.

What is guaranteed, and why:

* **One leads.** A row can be taken only where it is released, or its time is up by the store's one clock, and a standby
  that has watched it also waits until that is so by its own clock (a store whose clock is set forward gives nothing
  away). The leader counts from before it asked, the store from after: the leader's time is up first, by a quarter of
  the lease even if clocks run apart.
* **Nothing is started without the lease.** It is looked at where an attempt is given out, again where it begins, and
  before an undo or a step of a task. A process that was frozen finds its time over at its first look.
* **No old leader writes.** Each transaction of its store looks at the token first. One that finds another token keeps
  nothing, and its tree is killed.
* **Effects outside can be told apart.** A thread that Python cannot end may still be in the middle of something. So
  whatever an effect goes to should be told ``context.token`` and refuse one that is smaller than it has seen.
* **Nothing is lost.** Who takes over reads the journals after it has the token, so after the last write of the old
  leader that counts. It says that it leads when what was unfinished has been taken up again.
* **A clean stop hands over**: the lease is released when all is down and the last write is kept. Where a thread was
  left to itself it is not released; it runs out.

What it does not do: a process that is frozen in the middle of a write to SQLite holds the file's lock until it goes on
or dies, and nobody can take over before that.
"""
