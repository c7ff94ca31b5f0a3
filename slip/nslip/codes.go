package nslip

import "strconv"

// Act is the speech act of a message (A2).
type Act uint8

// The acts.
const (
	Observe Act = iota // new information about the world
	Inform             // derived information, belief
	Ask                // ask for information
	Request            // ask for a task or operation
	Propose            // propose a plan or option
	Commit             // commit to a plan or task
	Accept             // accept a plan or request
	Reject             // reject a plan or request
	Eval               // evaluate a plan or result
	Fail               // report an error: ERROR
	Meta               // protocol or capability update
)

var acts = [...]string{"OBSERVE", "INFORM", "ASK", "REQUEST", "PROPOSE", "COMMIT", "ACCEPT", "REJECT", "EVAL", "ERROR", "META"}

// String is the name in the specification, or the number of an act that has none.
func (a Act) String() string { return name(acts[:], uint64(a)) }

// ActNamed finds an act by its name.
func ActNamed(name string) (Act, bool) {
	i, ok := named(acts[:], name)
	return Act(i), ok
}

// Frame is the subject of a message (A2).
type Frame uint8

// The frames.
const (
	Task        Frame = iota // task definition or status
	Plan                     // plan with steps and estimates
	Observation              // observation of the environment
	Evaluation               // evaluation
	Control                  // protocol level
)

var frames = [...]string{"TASK", "PLAN", "OBSERVATION", "EVALUATION", "CONTROL"}

// String is the name in the specification, or the number of a frame that has none.
func (f Frame) String() string { return name(frames[:], uint64(f)) }

// FrameNamed finds a frame by its name.
func FrameNamed(name string) (Frame, bool) {
	i, ok := named(frames[:], name)
	return Frame(i), ok
}

// Code is the number of a slot (A3). Only the binary form has it on the wire.
type Code uint32

// The slots.
const (
	GoalID       Code = 0
	TaskID       Code = 1
	ParentTaskID Code = 2
	ResultID     Code = 3
	Priority     Code = 10 // by convention 1 to 3
	Score        Code = 11 // by convention 0 to 10
	Status       Code = 12 // a string
	ErrorCode    Code = 13
	Tag          Code = 20 // a string
)

// slots are the slots with their letters as text, in the order of codes.
var slots = [...]struct {
	code   Code
	letter byte
	name   string
	text   bool
}{
	{GoalID, 'g', "GOAL_ID", false},
	{TaskID, 'k', "TASK_ID", false},
	{ParentTaskID, 'p', "PARENT_TASK_ID", false},
	{ResultID, 'r', "RESULT_ID", false},
	{Priority, 'q', "PRIORITY", false},
	{Score, 's', "SCORE", false},
	{Status, 'u', "STATUS", true},
	{ErrorCode, 'e', "ERROR_CODE", false},
	{Tag, 't', "TAG", true},
}

// index is the index in slots, -1 for an unassigned code.
func (c Code) index() int {
	for i := range slots {
		if slots[i].code == c {
			return i
		}
	}
	return -1
}

// Known reports whether there is such a slot.
func (c Code) Known() bool { return c.index() >= 0 }

// IsText reports whether the value of the slot is a string.
func (c Code) IsText() bool { return c == Status || c == Tag }

// String is the name in the specification, or the number of an unassigned code.
func (c Code) String() string {
	if i := c.index(); i >= 0 {
		return slots[i].name
	}
	return strconv.FormatUint(uint64(c), 10)
}

// CodeNamed finds a slot by its name.
func CodeNamed(name string) (Code, bool) {
	for i := range slots {
		if slots[i].name == name {
			return slots[i].code, true
		}
	}
	return 0, false
}

// headers are the letters of the headers, in the order in which they are written.
const headers = "afcSdT"

func name(names []string, i uint64) string {
	if i < uint64(len(names)) {
		return names[i]
	}
	return strconv.FormatUint(i, 10)
}

func named(names []string, name string) (int, bool) {
	for i := range names {
		if names[i] == name {
			return i, true
		}
	}
	return 0, false
}
