package crash

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/store/pgstore"
)

// owners are processes that have a store in turn.
type owners struct {
	t      *testing.T
	server *pgtest.Server
	dir    string // of journals
	made   int
	active *series
	next   *series
}

func newOwners(t *testing.T) *owners {
	t.Helper()
	server, err := pgtest.New("")
	pgtest.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	o := &owners{t: t, server: server, dir: keptDir(t, "turns")}
	o.active = o.add()
	o.until("the first process has the store", func(ops []porcupine.Operation) bool { return count(ops, o.active.Name, didAppend, endOK) > 0 })
	o.next = o.add()
	o.until("the second process stands by", func(ops []porcupine.Operation) bool { return count(ops, o.next.Name, didTake, endHeld) > 0 })
	return o
}

func (o *owners) add() *series {
	o.t.Helper()
	s := newSeries(post{Role: roleOwner, Number: o.made, Journals: o.dir, Store: o.server.DSN("postgres")})
	o.made++
	if err := s.start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// until waits until the journals say something.
func (o *owners) until(what string, is func([]porcupine.Operation) bool) []porcupine.Operation {
	o.t.Helper()
	for late := time.Now().Add(startPatience); ; time.Sleep(20 * time.Millisecond) {
		ops, err := turns(o.dir)
		if err != nil || time.Now().After(late) {
			o.t.Fatalf("it is awaited that %s: %v", what, err)
		}
		if is(ops) {
			return ops
		}
	}
}

// follow waits until the next process has the store, and starts another one.
func (o *owners) follow() {
	o.t.Helper()
	name := o.next.Name
	o.until(name+" has the store", func(ops []porcupine.Operation) bool { return count(ops, name, didAppend, endOK) > 0 })
	o.active, o.next = o.next, o.add()
}

// leave waits until a process has ended without a fault.
func (o *owners) leave(s *series) {
	o.t.Helper()
	if err := s.cmd.Wait(); err != nil {
		o.t.Errorf("%s: %v", s.Name, err)
	}
}

func (o *owners) signal(s *series, what syscall.Signal) {
	o.t.Helper()
	if err := s.cmd.Process.Signal(what); err != nil {
		o.t.Fatal(err)
	}
}

// judged returns whether there is an order of all that has happened.
func judgedTurns(t *testing.T, ops []porcupine.Operation) porcupine.CheckResult {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(turnsModel, ops, patience)
	t.Logf("%d operations: %s", len(ops), result)
	return result
}

// TestST01NodesHaveAStoreInTurn kills, stops and drains processes that write to one store. There is an
// order of all that they were told in which each writes only as long as it has the store.
func TestST01NodesHaveAStoreInTurn(t *testing.T) {
	beside(t)
	sown(t)
	o, luck := newOwners(t), chances(t.Name())
	events := []func(){
		func() { // killed
			if err := o.active.kill(); err != nil {
				t.Error(err)
			}
			o.follow()
		},
		func() { // drained
			old := o.active
			o.signal(old, syscall.SIGTERM)
			o.leave(old)
			o.follow()
		},
		func() { // stopped for longer than the silence, and woken
			old := o.active
			o.signal(old, syscall.SIGSTOP)
			o.follow()
			o.signal(old, syscall.SIGCONT)
			o.leave(old)
		},
	}
	end := time.Now().Add(min(howLong(t), time.Minute)) // the search for an order takes longer than that
	for n := 0; n < len(events) || time.Now().Before(end); n++ {
		time.Sleep(upTo(luck, 200*time.Millisecond)) // in the middle of something
		if n < len(events) {
			events[n]()
		} else {
			events[luck.IntN(len(events))]()
		}
	}
	o.until("the last process heeds a signal", func(ops []porcupine.Operation) bool { return count(ops, o.next.Name, didTake, endHeld) > 0 })
	for _, s := range []*series{o.next, o.active} { // the other order would have the next one begin
		o.signal(s, syscall.SIGTERM)
		o.leave(s)
	}
	ops, err := turns(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.Open(t.Context(), pgstore.Options{DSN: o.server.DSN("postgres")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	last := uint64(0)
	began := clock()
	err = s.Read(t.Context(), ownedSpace, ownedLog, 0, func(seq uint64, _ string, _ []byte) bool {
		last = seq
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	ops = append(ops, porcupine.Operation{Input: turn{didLook, "test"}, Output: answered{endOK, last}, Call: began, Return: clock()})
	if judgedTurns(t, ops) != porcupine.Ok {
		t.Error("there is no order in which this can have happened")
	}
	fenced := 0
	for n := range o.made {
		fenced += count(ops, post{Role: roleOwner, Number: n}.nameOf(0), didAppend, endFenced)
	}
	t.Logf("%d processes, %d entries; %d processes were fenced", o.made, last, fenced)
	if fenced == 0 {
		t.Error("no process was fenced")
	}
}

// unfenced is begin_batch without its check of the epoch.
const unfenced = `CREATE OR REPLACE FUNCTION swp.begin_batch(of_node int, of_epoch bigint, of_batch bigint, at bigint, step bigint, OUT latest bigint)
LANGUAGE plpgsql AS $$
BEGIN
	UPDATE swp.node SET batch = of_batch, heartbeat = clock_timestamp() WHERE id = of_node;
	SELECT now INTO latest FROM swp.clock;
END $$`

// inNoTransaction says whether the owner is between two transactions.
const inNoTransaction = `SELECT state = 'idle' FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE locktype = 'advisory'`

// A database that does not fence has an owner that was stopped write after the next one.
func TestTheJudgeOfTurnsFindsTheWriteOfAZombie(t *testing.T) {
	beside(t)
	o := newOwners(t)
	c, err := pgx.Connect(t.Context(), o.server.DSN("postgres"))
	if err == nil {
		_, err = c.Exec(t.Context(), unfenced)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	old := o.active
	for idle := false; !idle; { // what reads back the outcome of a transaction is a second fence
		o.signal(old, syscall.SIGCONT)
		time.Sleep(time.Millisecond)
		o.signal(old, syscall.SIGSTOP)
		time.Sleep(50 * time.Millisecond) // the server does what it was sent
		if err := c.QueryRow(t.Context(), inNoTransaction).Scan(&idle); err != nil {
			t.Fatal(err)
		}
	}
	o.follow()
	ops, err := turns(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	if result := judgedTurns(t, ops); result != porcupine.Ok {
		t.Errorf("before the zombie wakes up: %s", result)
	}
	woken := clock()
	o.signal(old, syscall.SIGCONT)
	ops = o.until("the zombie writes", func(ops []porcupine.Operation) bool {
		return slices.ContainsFunc(ops, func(op porcupine.Operation) bool {
			return op.Input == (turn{didAppend, old.Name}) && op.Call > woken && op.Output.(answered).end == endOK
		})
	})
	if result := judgedTurns(t, ops); result != porcupine.Illegal {
		t.Errorf("after a zombie has written: %s", result)
	}
}

func TestTheModelOfTurnsFindsWhatIsWrong(t *testing.T) {
	var history []porcupine.Operation
	now := int64(0)
	say := func(who, do, end string, seq uint64) {
		now += 2
		op := porcupine.Operation{Input: turn{do, who}, Output: answered{end, seq}, Call: now, Return: now + 1}
		if end == unknownEnd {
			op.Return = forever
		}
		history = append(history, op)
	}
	// a has the store, and b takes it over.
	over := func() {
		say("a", didTake, endOK, 0)
		say("a", didAppend, endOK, 1)
		say("b", didTake, endHeld, 0)
		say("b", didTake, endOK, 0)
	}
	for name, test := range map[string]struct {
		tell func()
		want porcupine.CheckResult
	}{
		"taken over": {func() {
			over()
			say("a", didAppend, endFenced, 0)
			say("b", didAppend, endOK, 2)
			say("t", didLook, endOK, 2)
		}, porcupine.Ok},
		"zombie":         {func() { over(); say("a", didAppend, endOK, 2) }, porcupine.Illegal},
		"silent zombie":  {func() { over(); say("a", didAppend, unknownEnd, 0); say("b", didAppend, endOK, 3) }, porcupine.Illegal},
		"fenced owner":   {func() { over(); say("b", didAppend, endFenced, 0) }, porcupine.Illegal},
		"lost":           {func() { over(); say("t", didLook, endOK, 0) }, porcupine.Illegal},
		"lost, hidden":   {func() { over(); say("b", didAppend, endOK, 1) }, porcupine.Illegal},
		"gap":            {func() { over(); say("b", didAppend, endOK, 3) }, porcupine.Illegal},
		"no owner":       {func() { say("b", didTake, endHeld, 0) }, porcupine.Illegal},
		"left":           {func() { over(); say("b", didLeave, endOK, 0); say("c", didTake, endOK, 0) }, porcupine.Ok},
		"held by nobody": {func() { over(); say("b", didLeave, endOK, 0); say("c", didTake, endHeld, 0) }, porcupine.Illegal},
		"late farewell":  {func() { over(); say("a", didLeave, endOK, 0); say("b", didAppend, endOK, 2) }, porcupine.Ok},
		"killed, and it was written": {func() {
			say("a", didTake, endOK, 0)
			say("a", didAppend, unknownEnd, 0)
			say("b", didTake, endOK, 0)
			say("b", didAppend, endOK, 2)
		}, porcupine.Ok},
		"killed, and it was not written": {func() {
			say("a", didTake, endOK, 0)
			say("a", didAppend, unknownEnd, 0)
			say("b", didTake, endOK, 0)
			say("b", didAppend, endOK, 1)
		}, porcupine.Ok},
	} {
		history, now = nil, 0
		test.tell()
		if got := porcupine.CheckOperationsTimeout(turnsModel, history, patience); got != test.want {
			t.Errorf("%s: %v, want %v: %s", name, got, test.want, fmt.Sprint(described(turnsModel, history)))
		}
	}
}
