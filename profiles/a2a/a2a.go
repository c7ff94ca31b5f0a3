// Package a2a is the A2A profile: tasks that one agent hands to another, with
// Events on the way and one Result in the end.
//
//	HANDSHAKE says which agent is here, and which kinds of tasks it carries out
//	TASK      → EVENT* → RESULT
//
// A Service is both ends for all sessions of an endpoint. It executes what
// peers send, by Workers of its own or by passing a Task on to a session whose
// Handshake declared its kind, and it sends tasks itself (Send).
//
// A task belongs to the identity that sent it: for everyone else it does not
// exist. It is stored before anything is done, its start is stored before it
// starts, and each Event and the Result before they are sent. So a connection
// may be lost at any moment, and this process may end at any moment: the same
// Task, sent again, is not executed again, and with extension 20 its sender
// gets what it missed, in order, each Event once.
//
// # The path of one task
//
//	arrival    a Task is read and its request stored; Tasks and Results of the same
//	           task_id that come meanwhile wait for that (arrive.go)
//	task       from here on it is in the table. Access, Policy and Validate are asked
//	           (admit.go)
//	execution  a pool or an agent is chosen, and that is stored (execution.go). A pool
//	           runs a Worker (pool.go). To an agent the Task is sent by a Delivery,
//	           which drops an Event for which there is no room and requests it again
//	           (send.go, sequence.go); forward takes what comes back
//	eventLog   stores the Events, one after the other (log.go)
//	task       the first to call finish decides how it ends. The ending is stored
//	           after the last Event, and the task leaves the table (task.go)
//	cursor     sends to the last sender of the Task what is stored: the Events from
//	           the place that it asked for, then the Result (cursor.go)
//
// An update is what the initiator itself sends: its Result ends the task
// (initiator.go). The agents that are known are in the directory (agents.go), by their
// Handshakes or as partners (partner.go). Tasks that this endpoint sends itself are
// Deliveries, too, with an inbox in place of forward; the outbox has all Deliveries.
//
// # When the process is killed
//
// There are four records of a task, in the order in which they are written (record.go).
// The next process reads the standings (restart.go) and finds each task as
//
//	no request                 unknown: its sender had no answer, and sends it again
//	a request, no standing     left alone until its sender asks for it; then admitted
//	standing: waiting          given to a pool or an agent, as if it were new
//	standing: local            resumed if its Worker is a Resumer; else it has failed
//	standing: agent            it waits for the agent to declare itself. The same
//	                           process of the agent sends what is missing; for another
//	                           one the task has failed. A partner keeps its tasks, so
//	                           that each process of it is the same
//	an ending                  over; the Result is sent to whoever asks for it
//
// In each case the Events that were stored are sent again to a sender that asks for
// them, and a Result that an initiator was told was accepted is stored.
//
// # Locks
//
// The mu of the Service guards the table, the tasks with their log and execution, the
// pools and the directory. It is never held while the store, a session or a Worker is
// called. Methods that need it say "the caller holds mu"; the others take it
// themselves. The mu of a Delivery may be held when that of its inbox or of the Service
// is taken, never the other way round. The locks of inbox, outbox and beacons are taken
// last.
//
// A cursor has a goroutine until its exchange ends, a Delivery until its task or session
// ends, and a Worker while it runs. One Event of a task is written at a time,
// and one ending; what follows from it is done where the store calls back.
//
// Specification: SWP profiles §2, mcp-a2a mapping §2 and §4.
package a2a

// ProfileID is the profile_id of A2A.
const ProfileID = 2
