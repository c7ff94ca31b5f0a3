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
// Specification: SWP profiles §2, mcp-a2a mapping §2 and §4.
package a2a

// ProfileID is the profile_id of A2A.
const ProfileID = 2
