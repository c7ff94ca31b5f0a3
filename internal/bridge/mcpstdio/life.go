package mcpstdio

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// A server need not answer a request that was cancelled, so that its silence afterwards says nothing.
// Only the answer to a question of this side shows that a child is alive: server/discover, or ping in a
// session. It is asked when a call had its whole time without a message of the child, and when the child of
// no session has written nothing for a minute after a cancellation. A child that writes nothing for a minute
// after the question gets no new requests until it writes again. It is stopped when it has no call under way,
// and
//
//   - a call had its whole time without a message of the child; or
//   - the question has been without a message for as long as the longest time of a call; or
//   - it has no task, no subscription and no session, so that nothing is lost.

// settleTime is how long after the answer to a question the answer to a subscription that was cancelled
// before it may still come, because servers have several threads.
const settleTime = 200 * time.Millisecond

// life is what is known about the life of a child. Its times are ages of the child.
type life struct {
	question *question     // without an answer
	behind   []*flight     // cancelled subscriptions, for the next question
	again    bool          // there is to be another question
	unheard  time.Duration // when the last question was asked that stayed without any word; 0: none
	overdue  time.Duration // when a call had its whole time without a word; 0: none
	hopeless *time.Timer   // judges a silent child for the last time; nil without one
}

// question is a request of this side.
type question struct {
	key    string
	at     time.Duration
	behind []*flight // subscriptions that are over with its answer
	timer  *time.Timer
}

// age returns the age of the child.
func (c *child) age() time.Duration { return time.Since(c.started) }

// quietSince returns for how long the child has said nothing, beginning at a time at the earliest.
func (c *child) quietSince(t time.Time) time.Duration {
	return min(time.Since(t), c.age()-time.Duration(c.spoke.Load()))
}

// silent says whether the child has left a question without a word since. The caller holds mu.
func (c *child) silent() bool {
	return c.life.unheard > 0 && time.Duration(c.spoke.Load()) < c.life.unheard
}

// ask asks the child for a sign of life; with the answer the id of f, a cancelled subscription or nil, is
// free. One question is under way at a time. The caller holds mu.
func (c *child) ask(f *flight) {
	l := &c.life
	if f != nil {
		l.behind = append(l.behind, f)
	}
	if l.question != nil {
		l.again = true
		return
	}
	id := `"swp-alive-` + rand.Text() + `"` // no client has such an id
	line := mcpmap.AppendDiscover(nil, id)
	if c.ofSession() {
		line = mcpmap.AppendPing(nil, id)
	}
	q := &question{key: mcpmap.TokenKey([]byte(id)), at: c.age(), behind: l.behind}
	l.behind, l.again = nil, false
	c.write(append(line, '\n')) // a child that leaves no room for it does not answer it
	q.timer = time.AfterFunc(c.s.cfg.silent, func() { c.unanswered(q) })
	l.question = q
}

// answered reports whether a response to a key answers the question, and frees the ids behind it. The caller holds mu.
func (c *child) answered(key string) bool {
	q := c.life.question
	if q == nil || q.key != key {
		return false
	}
	c.asked()
	if len(q.behind) > 0 {
		time.AfterFunc(settleTime, func() {
			c.s.mu.Lock()
			for _, f := range q.behind {
				c.take(f)
			}
			c.s.mu.Unlock()
			c.s.serveWaiting()
		})
	}
	return true
}

// asked ends the question, and asks the next one. The caller holds mu.
func (c *child) asked() {
	c.life.end()
	if c.life.again {
		c.ask(nil)
	}
}

// unanswered is called when a question has no answer in time.
func (c *child) unanswered(q *question) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.life.question != q {
		return
	}
	if time.Duration(c.spoke.Load()) < q.at && !c.silent() {
		c.life.unheard = q.at
	}
	c.asked()
	c.judge()
	if left := c.unheardLeft(); c.silent() && left > 0 && c.life.hopeless == nil {
		c.life.hopeless = time.AfterFunc(left, c.lastJudged)
	}
}

// unheardLeft returns how much of the longest time of a call is left since the question that stayed without a
// message. The caller holds mu.
func (c *child) unheardLeft() time.Duration {
	return c.life.unheard + c.s.cfg.Timeouts.Longest() - c.age()
}

// lastJudged judges a child that has been silent for the longest time of a call.
func (c *child) lastJudged() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.life.hopeless = nil
	if left := c.unheardLeft(); c.silent() && left > 0 { // it wrote in between
		c.life.hopeless = time.AfterFunc(left, c.lastJudged)
		return
	}
	c.judge()
}

// stop stops the clocks, at the end of the child.
func (l *life) stop() {
	l.end()
	if l.hopeless != nil {
		l.hopeless.Stop()
	}
}

// end ends the question.
func (l *life) end() {
	if l.question != nil {
		l.question.timer.Stop()
		l.question = nil
	}
}

var errSilent = errors.New("mcpstdio: the child answers no question")

// judge stops a child that is taken for stuck. The caller holds mu.
func (c *child) judge() {
	if !c.silent() || c.isStopping() {
		return
	}
	listens := false
	for _, f := range c.flights {
		switch {
		case f.abandoned != nil:
		case !f.endless:
			return
		default:
			listens = true
		}
	}
	overdue := c.life.overdue > time.Duration(c.spoke.Load()) || c.unheardLeft() <= 0
	if overdue || len(c.held) == 0 && !listens && !c.ofSession() {
		c.fail(c.s.upstream("does not answer any more", errSilent))
	}
}
