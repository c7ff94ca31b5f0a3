package mcpmap

import (
	"bytes"
	lru "container/list"
	"strconv"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// A server makes a task in place of an answer, and names it by an id. Behind this endpoint
// all callers are one client of the server, so the server cannot keep them apart: a task
// belongs to the caller whose request has made it. Nobody else can read, answer or cancel it,
// or hear of it; others get the answer to an id that does not exist. The rules for the
// request hold for its task.
//
// Specification: MCP 2025-11-25, tasks; MCP 2026-07-28, extension io.modelcontextprotocol/tasks.

// Methods about tasks.
const (
	methodsOfTasks  = "tasks/" // all methods that begin with it
	methodTasksList = "tasks/list"
	changedTasks    = "notifications/tasks" // and, in the legacy era, notifications/tasks/status
)

// Holder is a process that has tasks in its memory. Its methods do not wait.
type Holder interface {
	// Hold is called when the process has one more task under way, Release when one is
	// under way no more: its caller knows that it has ended, its time to live is over, or
	// there was no message about it for a day.
	// identity is the caller of the task.
	Hold(identity string)
	Release(identity string)

	// Do executes a request about a task of the process.
	Do(x *Exchange)
}

// Bounds of tasks.
const (
	maxTaskName = 2048           // octets of the id and of the name of its tool
	taskQuiet   = 24 * time.Hour // without a message about a task
	maxTaskLife = 30 * 24 * time.Hour
)

// tasks are the tasks at the servers of a Mapping.
type tasks struct {
	mu     sync.Mutex
	of     map[taskKey]*task
	owners map[string]*lru.List // of *task, the least recently used one first
	places fair.Shares
	store  Store // nil: tasks end with this process
}

type taskKey struct{ server, id string }

// task is one task. Its fields are guarded by tasks.mu; those above the line never change.
type task struct {
	key             taskKey
	owner           string
	operation, name string         // of the request that has made it, for the access rules
	session         *serverSession // of that request, or nil
	holder          Holder         // the process that has it, or nil
	began           time.Time

	used  time.Time
	ttl   time.Duration // from began on; negative if it is not known
	ended bool          // the server has said so
	held  *time.Timer   // ends the hold of the process; nil without one
	at    *lru.Element

	writing bool      // it is being stored
	version uint64    // of its record; 0 without one
	until   time.Time // end of the record
}

func newTasks(bound int, kept Store) *tasks {
	return &tasks{
		store: kept, of: make(map[taskKey]*task), owners: make(map[string]*lru.List), places: fair.NewShares(bound),
	}
}

// find returns the task with an id if it belongs to an identity, and marks it as used.
func (t *tasks) find(owner, server, id string) *task {
	t.mu.Lock()
	one := t.of[taskKey{server, id}]
	if one == nil || one.owner != owner {
		t.mu.Unlock()
		return nil
	}
	now := time.Now()
	if now.After(one.forgotten()) {
		t.remove(one)
		t.mu.Unlock()
		return nil
	}
	one.used = now
	t.owners[owner].MoveToBack(one.at)
	renew := one.version > 0 && one.forgotten().Sub(one.until) > taskQuiet/4
	t.mu.Unlock()
	if renew {
		t.keep(one, func(error) {}) // the next use tries again
	}
	return one
}

// busy reports whether no task can be added for an identity without forgetting one that is
// under way.
func (t *tasks) busy(owner string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.places.Ask(owner, 1) != fair.Taken && t.idle(owner, time.Now()) == nil
}

// idle returns the least recently used task of an identity that is not under way, or nil. The
// caller holds mu.
func (t *tasks) idle(owner string, now time.Time) *task {
	mine := t.owners[owner]
	if mine == nil {
		return nil
	}
	for e := mine.Front(); e != nil; e = e.Next() {
		if one := e.Value.(*task); one.rests(now) { //nolint:errcheck // the list holds nothing else
			return one
		}
	}
	return nil
}

// add adds a task, unless there is one with its id already, whosever it is: then it returns
// false.
func (t *tasks) add(one *task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if was := t.of[one.key]; was != nil {
		if now.Before(was.forgotten()) {
			return false
		}
		t.remove(was)
	}
	mine := t.owners[one.owner]
	if t.places.Take(one.owner, 1) != fair.Taken {
		// busy keeps this from happening but for calls at the same time.
		least := t.idle(one.owner, now)
		if least == nil && mine != nil {
			least = mine.Front().Value.(*task) //nolint:errcheck // as above
		}
		if least != nil {
			t.remove(least)
		}
		t.places.Force(one.owner, 1)
	}
	one.began, one.used = now, now
	t.enter(one)
	if one.holder != nil && !one.ended {
		one.holder.Hold(one.owner)
		one.held = time.AfterFunc(one.rest().Sub(now), func() { t.quiet(one) })
	}
	return true
}

// enter puts a task into the table, as the one used last. The caller holds mu, and has taken
// its place.
func (t *tasks) enter(one *task) {
	mine := t.owners[one.owner]
	if mine == nil {
		mine = lru.New()
		t.owners[one.owner] = mine
	}
	one.at = mine.PushBack(one)
	t.of[one.key] = one
}

// tell updates a task by a message about it that its owner gets.
func (t *tasks) tell(one *task, m *Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.learn(m)
	switch {
	case one.held == nil:
	case one.ended:
		t.release(one)
	default:
		one.held.Reset(time.Until(one.rest()))
	}
}

// learn reads status and time to live of a task in a message.
func (one *task) learn(m *Message) {
	switch status, _ := m.text(m.status); string(status) {
	case "completed", "failed", "cancelled":
		one.ended = true
	}
	if ttl, err := strconv.ParseUint(string(m.at(m.ttl)), 10, 63); err == nil {
		one.ttl = time.Duration(min(ttl, uint64(maxTaskLife.Milliseconds()))) * time.Millisecond
	}
}

// quiet ends the hold of a process for a task that nobody waits for any more.
func (t *tasks) quiet(one *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.held == nil {
		return
	}
	if left := time.Until(one.rest()); left > 0 {
		one.held.Reset(left)
		return
	}
	t.release(one)
}

// release ends the hold of a process for a task. The caller holds mu.
func (t *tasks) release(one *task) {
	one.held.Stop()
	one.held = nil
	one.holder.Release(one.owner)
}

// remove forgets a task. The caller holds mu.
func (t *tasks) remove(one *task) {
	if one.held != nil {
		t.release(one)
	}
	if one.version > 0 {
		t.store.Delete(spaceTasks, one.key.record(), 0, func(bool, error) {}) // else it expires
	}
	delete(t.of, one.key)
	mine := t.owners[one.owner]
	mine.Remove(one.at)
	if mine.Len() == 0 {
		delete(t.owners, one.owner)
	}
	t.places.Give(one.owner, 1)
}

// rest returns when a task that has not ended counts as under way no more.
func (one *task) rest() time.Time {
	if one.ttl >= 0 {
		return one.began.Add(one.ttl)
	}
	return one.used.Add(taskQuiet)
}

// rests reports whether a task is not under way.
func (one *task) rests(now time.Time) bool { return one.ended || !now.Before(one.rest()) }

// forgotten returns when a task is forgotten.
func (one *task) forgotten() time.Time {
	at := one.used.Add(taskQuiet)
	if end := one.rest(); end.After(at) {
		return end
	}
	return at
}

// working reports whether a session has a task under way.
func (t *tasks) working(s *serverSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine, now := t.owners[s.identity], time.Now()
	if mine == nil {
		return false
	}
	for e := mine.Front(); e != nil; e = e.Next() {
		if one := e.Value.(*task); one.session == s && !one.rests(now) { //nolint:errcheck // as above
			return true
		}
	}
	return false
}

// count returns how many tasks are remembered.
func (t *tasks) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of)
}

func (t *tasks) pool() fair.Pool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.places.Pool("mcp tasks")
}

// checkTasks returns an error if a message names tasks in a way that parsers could read
// differently.
func (m *Message) checkTasks(kind Kind) error {
	method := m.Method()
	if kind == Request && bytes.HasPrefix(method, []byte(methodsOfTasks)) && m.task.present() {
		if _, ok := m.text(m.task); !ok || m.taskFault {
			return invalid(detailShape, "the id of the task is not one string")
		}
	}
	if kind == Request && m.Is(MethodListen) && (m.listedFault || !m.eachListed(func([]byte) bool { return true })) {
		return invalid(detailShape, "notifications.taskIds is not one list of strings")
	}
	return nil
}

// eachListed calls f with the unescaped ids of the tasks that a subscriptions/listen is to
// tell of, until f returns false. It returns false if f did, or if one is not a string.
func (m *Message) eachListed(f func(id []byte) bool) bool {
	if list := m.at(m.listed); len(list) == 0 || list[0] != '[' {
		return true
	}
	s, ok := scanner{b: m.octets, i: m.listed.from}, true
	s.each(func(int) {
		from := s.i
		s.skip(0)
		id, is := m.text(span{from, s.i})
		ok = ok && is && f(id)
	})
	return ok
}

// makesTask reports whether a response to another request than one about tasks has made a
// task.
func (m *Message) makesTask() bool {
	kind, _ := m.text(m.resultType)
	return m.Task() != nil && (m.created || string(kind) == "task")
}

// concerned returns the process that has the tasks which a request names, or nil. The error is
// the answer to a request that names a task which does not belong to its caller, or whose
// rules deny it. s is the session of the request, or nil.
func (m *Mapping) concerned(req *profiles.Request, msg *Message, server string, s *serverSession) (holder Holder, err error) {
	method := msg.Method()
	switch {
	case msg.Is(MethodListen):
		msg.eachListed(func(id []byte) bool {
			var at Holder
			if at, err = m.concern(req, msg, server, s, id); err == nil && holder != nil && at != nil && at != holder {
				err = m.refuseTask(req, msg, CodeInternal, taskFault("the tasks are in different processes of the server: listen to them one by one"))
			}
			if at != nil {
				holder = at
			}
			return err == nil
		})
	case bytes.HasPrefix(method, []byte(methodsOfTasks)) && msg.Task() != nil:
		return m.concern(req, msg, server, s, msg.Task())
	case msg.Is(MethodToolsCall) && m.tasks.busy(req.Identity()):
		err = errTasks
	}
	return holder, err
}

var errTasks = profiles.Busy("mcp_tasks", "too many tasks of this caller are under way: wait until some have ended, or cancel them")

// concern is concerned for one task.
func (m *Mapping) concern(req *profiles.Request, msg *Message, server string, s *serverSession, id []byte) (Holder, error) {
	one := m.tasks.find(req.Identity(), server, string(id))
	switch {
	case one == nil && msg.Modern() && !isTaskMethod(msg):
		fault := taskFault("Method not found")
		fault.Code = profiles.NotFound
		return nil, m.refuseTask(req, msg, CodeMethodNotFound, fault)
	case one == nil:
		// A server says the same of an id that it does not know.
		fault := taskFault("Task not found")
		fault.Code = profiles.NotFound
		return nil, m.refuseTask(req, msg, CodeInvalidParams, fault)
	case !profiles.Would(m.opts.Access, one.owner, profileName, one.operation, one.name):
		req.Forbid(m.opts.Access, profileName, string(msg.Method()), one.name, "task")
		return nil, profiles.ErrDenied
	case one.holder != nil && one.session != s:
		return nil, m.refuseTask(req, msg, CodeInternal, taskFault("the task is in the process of another session with the server"))
	}
	return one.holder, nil
}

// isTaskMethod reports whether a modern request is one of the extension for tasks, or a listener.
// A server looks for the method before it looks for the task.
func isTaskMethod(msg *Message) bool {
	return msg.Is("tasks/get") || msg.Is("tasks/update") || msg.Is("tasks/cancel") || msg.Is(MethodListen)
}

// remains reports whether a request is about a task whose process goes on without its server.
func (m *Mapping) remains(req *profiles.Request, msg *Message, server string) bool {
	if !msg.Modern() || !bytes.HasPrefix(msg.Method(), []byte(methodsOfTasks)) || msg.Task() == nil {
		return false
	}
	one := m.tasks.find(req.Identity(), server, string(msg.Task()))
	return one != nil && one.holder != nil
}

func taskFault(text string) *profiles.Error {
	return &profiles.Error{Code: profiles.Internal, Detail: "mcp_task", Text: text, Domain: true}
}

// refuseTask returns fault with its answer.
func (m *Mapping) refuseTask(req *profiles.Request, msg *Message, code int, fault *profiles.Error) error {
	fault.Answer = e1.Envelope{
		MsgType: uint64(Response), MsgID: req.MsgID,
		Payload: appendFailure(req.Scratch(maxAnswer), msg.ID(), code, fault, m.opts.Identity),
	}
	return fault
}

// From sets the process that has written the response. It is called before Finish, by the
// same goroutine.
func (x *Exchange) From(h Holder) { x.from = h }

var errTaskName = &profiles.Error{
	Code: profiles.Internal, Detail: "mcp_task", Text: "the id of the task and the name of its tool are longer than 2048 octets, so nobody could ask about it",
}

// tasked notes what a response tells of a task, and returns a task that is to be stored before
// the response is sent.
func (x *Exchange) tasked(response []byte) (*task, *profiles.Error) {
	if !namesTask(response) || !x.pin() {
		return nil, nil
	}
	defer x.unpin()
	var m Message
	if m.Scan(response) != nil || m.Task() == nil {
		return nil, nil
	}
	if bytes.HasPrefix(x.Message.Method(), []byte(methodsOfTasks)) {
		if one := x.m.tasks.find(x.Peer().Identity, x.target, string(m.Task())); one != nil {
			x.m.tasks.tell(one, &m)
		}
		return nil, nil
	}
	if !m.makesTask() {
		return nil, nil
	}
	one := &task{
		key: taskKey{x.target, string(m.Task())}, owner: x.Peer().Identity, session: x.session, holder: x.from, ttl: -1,
		operation: string(x.Message.Method()), name: nameOf(&x.Message, x.target),
	}
	if len(one.key.id)+len(one.name) > maxTaskName {
		return nil, errTaskName
	}
	one.learn(&m)
	if !x.m.tasks.add(one) || !x.m.tasks.lasts(one) {
		return nil, nil
	}
	return one, nil
}

// namesTask reports whether a message may name a task. Most need not be scanned.
func namesTask(octets []byte) bool {
	return bytes.Contains(octets, taskIDMember) || bytes.Contains(octets, []byte(`\u00`))
}

// hears reports whether a notification about a task is for the client.
func (v view) hears(m *Message) bool {
	id := m.Task()
	if id == nil || m.taskFault {
		return false
	}
	one := v.tasks.find(v.identity, v.server, string(id))
	if one == nil || !v.may(one.operation, one.name) {
		return false
	}
	v.tasks.tell(one, m)
	return true
}
