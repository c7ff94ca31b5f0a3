// Package a2a is the A2A profile: tasks that one agent sends to another, with Events on the
// way and one Result at the end.
//
//	HANDSHAKE declares an agent, and the kinds of tasks that it carries out
//	TASK      → EVENT* → RESULT
//
// A Service is both ends of the profile for all sessions of an endpoint. It executes the
// tasks of peers, by its Workers or by forwarding a Task to a session whose Handshake
// declared its kind, and it sends tasks itself (Send).
//
// A task belongs to the identity that sent it: for every other identity it does not exist.
// The task is stored before anything is done, its start before it starts, and each Event and
// the Result before they are sent. So a connection may be lost, and this process may end, at
// any moment: the same Task, sent again, is not executed again, and with extension 20 its
// sender gets the missed Events, in order, each once.
//
// # The path of one task
//
//	arrival    reads a Task, asks the Access and stores the request; further Tasks and
//	           Results with the same task_id wait for that (arrive.go). Of a denied Task
//	           only a digest and the Result are stored (denied.go)
//	task       is now in the table. Validate is asked, and when the task begins Access and
//	           Policy, because it may have waited (admit.go)
//	execution  chooses a pool or an agent, and stores the choice (execution.go). A pool
//	           runs a Worker (pool.go). A Delivery sends the Task to an agent; it drops
//	           an Event if there is no room, and requests it again (send.go,
//	           sequence.go); forward receives the Events
//	eventLog   stores the Events in order (log.go)
//	task       the first call of finish decides how it ends. The ending is stored after
//	           the last Event, and the task leaves the table (task.go)
//	cursor     sends the stored Events, from the requested number on, and then the
//	           Result to the last sender of the Task (cursor.go)
//
// An update is a message of the initiator: its Result ends the task (initiator.go). The
// directory has the known agents, declared by Handshakes (agents.go) or partners
// (partner.go). Tasks that this endpoint sends itself are Deliveries, too, with an inbox in
// place of forward; the outbox has all Deliveries.
//
// # When the process is killed
//
// There are four records of a task, in the order in which they are written (record.go). The
// next process reads the standings (restart.go) and finds each task in one of these states:
//
//	no request                 unknown: its sender had no answer, and sends it again
//	a request, no standing     not admitted; admitted when its sender asks for it
//	standing: waiting          assigned to a pool or an agent, like a new task
//	standing: local            resumed if its Worker is a Resumer; otherwise it has failed
//	standing: agent            waits until the agent declares itself. The same process of
//	                           the agent sends the missing Events; with another process
//	                           the task has failed. A partner stores its tasks, so its
//	                           processes are not distinguished
//	an ending                  ended; the Result is sent on request
//
// In each state the stored Events are sent again on request. A Result of an initiator that
// was confirmed as accepted is stored.
//
// # Locks
//
// The mu of the Service guards the table, the tasks with their log and execution, the pools
// and the directory. It is never held during a call of the store, a session or a Worker.
// Methods that need it say "the caller holds mu"; the others take it themselves. The mu of a
// Delivery may be held when the mu of its inbox or of the Service is taken, never the other
// way round. The locks of inbox, outbox and beacons are taken last.
//
// A cursor has a goroutine until its exchange ends, a Delivery until its task or session
// ends, and a Worker while it runs. At most one Event and one ending of a task are being
// written at a time; the callback of the store continues.
//
// Specification: SWP profiles §2, mcp-a2a mapping §2 and §4.
package a2a

// ProfileID is the profile_id of A2A.
const ProfileID = 2
