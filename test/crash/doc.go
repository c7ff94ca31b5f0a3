// Package crash kills swpd at random moments while it works, and holds what it
// has acknowledged against what it still knows: nothing acknowledged is lost,
// nothing is done twice. Its clients are killed as well, and the link between two swpd is
// disturbed. It has no code but tests.
//
// The crash tests are four: swpd alone, also while it starts, under load of every durable
// kind, and then a cut of the power of its disk (make soak); publishers and consumers of
// deliveries, and swpd (make soak-relay); both swpd of two organisations, their clients of
// every kind and their agents, while the link is reset, left half-open, stalled and slowed
// down (make soak-federation); several swpd on one PostgreSQL, of which the active one is killed,
// drained, stopped or cut off from the database, which is killed and fails over, too (make
// soak-cluster). Links are cut where this process may make network namespaces; elsewhere the test says
// why not. Below that, processes that use one store of PostgreSQL in turn are held against a model of the
// lease and its fence (turnsModel). TestFailover measures how long a client notices a change of the node
// (make failover).
//
// Every process writes each action into a journal, before it and after its acknowledgement, and
// syncs it. The judge (history.judge) reads all journals, and knows besides when each process was
// killed. The next process of a series continues at the end of the journal before.
//
// The judge holds that
//
//   - no acknowledged data is lost, and received data has the digest of the sent data;
//   - nothing arrives twice without a cause, such as a consumer that was killed before its ACK;
//   - the events of a producer, and the Events of a task, arrive in order; a durable
//     subscription has no gap;
//   - a task has one Result, and every request for it returns the same one; tasks and calls
//     run once, unless their executor was killed.
//
// The judge is tested with journals in which a fault was planted. The seed repeats the random
// choices of a run, but not what the scheduler decides.
//
// Of two organisations the audit trails are judged, too: whatever a client had an answer to has
// its record at the near end, and at the far end if it went there; and each record has its
// reason in a journal (judgeNear, judgeLink, judgeErrands).
//
// SWP_CRASH says how long, SWP_CRASH_SEED which random choices are made; the targets of make set
// them by SOAK and SEED. Where a test fails,
// the data directories and the journals stay.
package crash
