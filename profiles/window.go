package profiles

// Window counts the messages to a receiver that keeps a limited weight of them until it confirms
// some. Receivers share a connection, so the backpressure of the connection cannot replace it. Each
// profile defines the weight of a message. The zero value has no limit; the caller guards it by a
// mutex.
type Window struct {
	Size uint64 // weight that the receiver keeps; 0: it does not say

	sent   uint64 // so far
	marked uint64 // sent when the receiver was asked last to confirm it
	taken  uint64 // the last that it has confirmed
}

// marks is how often a receiver is asked to confirm while it takes as much as its window.
const marks = 16

// Full reports whether the sender has to wait for a confirmation.
func (w *Window) Full() bool { return w.Size > 0 && w.sent-w.taken >= w.Size }

// After returns what will have been sent after one more message, for Sent, and whether the message
// asks the receiver to confirm that number.
func (w *Window) After(weight int) (sent uint64, mark bool) {
	sent = w.sent + uint64(weight)
	return sent, w.Size > 0 && sent-w.marked >= w.Size/marks
}

// Sent notes that the message was sent.
func (w *Window) Sent(sent uint64, mark bool) {
	w.sent = sent
	if mark {
		w.marked = sent
	}
}

// Confirm notes that the receiver has taken what was sent up to a number, and reports whether that
// is news.
func (w *Window) Confirm(sent uint64) bool {
	sent = min(sent, w.sent)
	if sent <= w.taken {
		return false
	}
	w.taken = sent
	return true
}

// Forget takes what was sent for taken: the receiver is another one, or has lost it.
func (w *Window) Forget() { w.taken, w.marked = w.sent, w.sent }
