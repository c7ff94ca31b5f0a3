package a2a

import (
	"context"
	"time"
)

// Worker carries out tasks of its registered kinds. It is called concurrently.
type Worker interface {
	// Run carries out one task. event stores an Event and queues it for the initiator.
	// message or payload must not be empty; both are copied. event waits until the Event is
	// stored, fails after the end of the task, and must be called by one goroutine at a
	// time.
	//
	// The output or the error becomes the Result. The initiator gets the text of a
	// *Failure; for any other error it learns only that the worker failed. ctx carries the
	// trace context of the task. It ends when the task ends for another reason: its
	// deadline, the initiator's Result, a stop of this endpoint. The result of Run is then
	// ignored.
	Run(ctx context.Context, t *Task, event func(message string, payload []byte) error) (output []byte, err error)
}

// Resumer is a Worker that can continue a task which was started in an earlier process. For
// any other Worker such a task ends with a failure, and a stop waits for the end of the
// task.
type Resumer interface {
	Worker

	// Resume is Run for a started task. last is the payload of the last stored Event, nil
	// if there is none.
	Resume(ctx context.Context, t *Task, last []byte, event func(message string, payload []byte) error) (output []byte, err error)
}

// WorkerFunc is a function as a Worker.
type WorkerFunc func(ctx context.Context, t *Task, event func(message string, payload []byte) error) ([]byte, error)

// Run calls f.
func (f WorkerFunc) Run(ctx context.Context, t *Task, event func(string, []byte) error) ([]byte, error) {
	return f(ctx, t, event)
}

// Task is a task for a Worker. The Worker must not change it and may keep it.
type Task struct {
	ID       []byte    // task_id; unique for one initiator only
	Kind     string    // requested capability
	Input    []byte    // opaque
	Peer     string    // authenticated identity of the initiator
	Params   []string  // service parameters, as "name=value"
	Deadline time.Time // then the task fails; zero if there is none
	Hops     uint64    // endpoints that the Task has passed
}

// Failure is an error whose text reaches the initiator as error_message.
type Failure struct {
	Reason string
	Output []byte // of the Result, in addition to the reason; may be nil
}

func (f *Failure) Error() string { return "a2a: " + f.Reason }
