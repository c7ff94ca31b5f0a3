package a2a

import (
	"context"
	"time"
)

// Worker carries out tasks of the kinds it is registered for. It is called by
// many goroutines at once.
type Worker interface {
	// Run carries out one task. event stores an Event and queues it for the
	// initiator; message or payload is not empty, and both are copied. It waits
	// until the Event is stored, fails once the task is over, and is called by
	// one goroutine at a time.
	//
	// The output or the error becomes the Result. The text of a *Failure reaches
	// the initiator; of any other error it learns no more than that the worker
	// failed. ctx carries the trace context of the task and ends when the task is
	// over for another reason: its deadline, the initiator's own Result, a stop of
	// this endpoint. What Run returns after that does not count.
	Run(ctx context.Context, t *Task, event func(message string, payload []byte) error) (output []byte, err error)
}

// Resumer is a Worker that can go on with a task which it had begun in an earlier
// process. For one that is not such a task ends with a failure, and a stop waits for
// its end.
type Resumer interface {
	Worker

	// Resume is Run for a task that was begun. last is the payload of the last Event
	// that is stored, nil if there is none.
	Resume(ctx context.Context, t *Task, last []byte, event func(message string, payload []byte) error) (output []byte, err error)
}

// WorkerFunc is a function as a Worker.
type WorkerFunc func(ctx context.Context, t *Task, event func(message string, payload []byte) error) ([]byte, error)

// Run calls f.
func (f WorkerFunc) Run(ctx context.Context, t *Task, event func(string, []byte) error) ([]byte, error) {
	return f(ctx, t, event)
}

// Task is a task as its worker sees it. The worker does not change it and may
// keep it.
type Task struct {
	ID       []byte    // task_id; unique for one initiator only
	Kind     string    // requested capability
	Input    []byte    // opaque
	Peer     string    // identity of the initiator, as the channel authenticated it
	Params   []string  // service parameters, as "name=value"
	Deadline time.Time // when it ends with a failure; zero if never
	Hops     uint64    // endpoints that the Task has passed
}

// Failure is an error whose text reaches the initiator as error_message.
type Failure struct {
	Reason string
	Output []byte // of the Result, beside the reason; may be nil
}

func (f *Failure) Error() string { return "a2a: " + f.Reason }
