// Package crash kills swpd at random moments while it works, and holds what it
// has acknowledged against what it still knows: nothing acknowledged is lost,
// nothing is done twice. Its clients are killed as well, and the link between two swpd is
// disturbed. It has no code but tests.
//
// Every process writes a journal of what it does, before it does it and after it was
// acknowledged, and syncs it. The judge (history.judge) reads the journals of all, and
// knows besides who was killed when. The next process of a series goes on where its journal
// ends.
//
// Of two organisations the audit trails are judged, too: whatever a client had an answer to has
// its record at the near end, and at the far end if it went there; and each record has its
// reason in a journal (judgeNear, judgeLink, judgeErrands).
//
// SWP_CRASH says how long, SWP_CRASH_SEED which random choices are made; `make soak`,
// `make soak-relay` and `make soak-federation` set them by SOAK and SEED. Where a test fails,
// the data directories and the journals stay.
package crash
