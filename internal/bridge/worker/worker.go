// Package worker carries out A2A tasks outside this process: Command runs a
// program for each task, HTTP posts each to a URL. Both get the input unchanged
// and answer with lines.
//
// A line that is a JSON object with a member "output" carries the output of the
// task: the octets of that member's value, whatever its type, as they stand; a
// string keeps its quotes. There is one at most. Any other line is an Event: a
// JSON object as event_payload, octet for octet; other text as message; what is
// neither, because it is no UTF-8, as event_payload, too. Blank lines say
// nothing. Lines end with "\n" or "\r\n", which do not belong to them.
//
// What runs and where tasks are posted is said by configuration alone. Of a task
// a worker learns its id (in hex), its kind, who initiated it, the trace context
// and the policy hints, in the environment or in headers.
//
// Specification: SWP profiles §2, ABUSE GW-01 to GW-03, GW-08, GW-09.
package worker

// maxLine is the default bound of a line (ABUSE §1, upstream line or body).
const maxLine = 8 << 20

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
