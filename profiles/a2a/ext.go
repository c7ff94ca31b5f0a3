package a2a

// Extension types of this profile.
const (
	ExtAgent     = 16 // agent_id for a Task
	ExtParam     = 18 // "name=value" service parameter, repeatable
	ExtSequence  = 19 // uvarint, number of an Event, from 1; on a Result the number of the last Event
	ExtResume    = 20 // uvarint, send the Events after this number again
	ExtFirstHeld = 21 // uvarint, on the first repeated Event the first number that is still stored
)
