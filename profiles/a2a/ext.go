package a2a

// Extension types of this profile.
const (
	ExtAgent     = 16 // agent_id that a Task is meant for
	ExtParam     = 18 // "name=value" service parameter, repeatable
	ExtSequence  = 19 // uvarint, number of an Event, from 1; on a Result that of the last Event
	ExtResume    = 20 // uvarint, replay the Events after this number
	ExtFirstHeld = 21 // uvarint, on the first replayed Event the first number that is still held
)
